"""The demo's application: one task, which asks an unreliable service for a summary."""

import os
import urllib.request

from seawall import Seawall, current_job, parse_output

app = Seawall()
SERVICE = os.environ.get("SERVICE", "http://127.0.0.1:8080")


@app.task(policy="demo", upstream="summaries", timeout_seconds=5)
def summarize(document: str) -> dict[str, object]:
    """No try, no except, no sleep: whatever goes wrong here is the policy's affair."""
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{SERVICE}/summary/{document}",
        headers={"Idempotency-Key": current_job().idempotency_key},
    )
    with urllib.request.urlopen(request, timeout=2) as response:  # noqa: S310 - loopback
        summary: dict[str, object] = parse_output(response.read().decode())
    return summary
