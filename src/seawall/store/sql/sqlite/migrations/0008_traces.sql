-- Traces: in which one a job was asked for, and which span stands for each attempt at it. Both are W3C
-- trace contexts as text; where nobody traces there are none.

ALTER TABLE seawall_job_data ADD COLUMN trace TEXT;

ALTER TABLE seawall_attempt ADD COLUMN span TEXT;
