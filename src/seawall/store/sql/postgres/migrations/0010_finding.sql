-- Finding jobs: which job asked for another, as its handler ran.

ALTER TABLE seawall.job_data ADD COLUMN parent bigint;  -- the job may be gone by now

-- What lists of children walk: few jobs have a parent.
CREATE INDEX job_data_parent ON seawall.job_data (parent, job) WHERE parent IS NOT NULL;
