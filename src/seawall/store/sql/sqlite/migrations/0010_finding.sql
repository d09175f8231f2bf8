-- Finding jobs: which job asked for another, as its handler ran.

ALTER TABLE seawall_job_data ADD COLUMN parent INTEGER;  -- the job may be gone by now

-- What lists of children walk: few jobs have a parent.
CREATE INDEX seawall_job_data_parent ON seawall_job_data (parent, job) WHERE parent IS NOT NULL;
