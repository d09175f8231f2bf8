"""Asks for a summary of every document."""

from jobs import app, summarize

documents = [f"document-{number:03}" for number in range(1, 301)]
jobs = app.enqueue_many(summarize.job(document) for document in documents)
print(f"asked for {len(jobs)} summaries, jobs {jobs[0].id} to {jobs[-1].id}")
