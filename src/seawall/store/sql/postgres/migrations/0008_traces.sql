-- Traces: in which one a job was asked for, and which span stands for each attempt at it. Both are W3C
-- trace contexts as text; where nobody traces there are none.

ALTER TABLE seawall.job_data ADD COLUMN trace text;

ALTER TABLE seawall.attempt ADD COLUMN span text;
