"""What the service has done: at once where that is possible, else by workers."""

from llm import ask
from pydantic import BaseModel

from seawall import Seawall, parse_output

app = Seawall()


class Summary(BaseModel):
    """What the model has to answer."""

    summary: str
    words: int


@app.task(policy="ai-worker", upstream="llm", timeout_seconds=60)
def summarize(text: str) -> Summary:
    said = ask(f'Answer with JSON, {{"summary": "…", "words": 0}}: {text}')
    return parse_output(said, Summary)
