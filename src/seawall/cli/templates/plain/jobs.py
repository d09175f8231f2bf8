"""The jobs of this project."""

from pathlib import Path

from seawall import Seawall

app = Seawall()  # its settings and policies: seawall.toml


@app.task(policy="patient", timeout_seconds=60)
def count_words(path: str) -> int:
    """No try, no except, no sleep: whatever goes wrong here is the policy's affair."""
    return len(Path(path).read_text("utf-8").split())
