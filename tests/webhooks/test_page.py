"""A receiver written from docs/webhooks.md takes what workers send."""

import json
import re
import threading

import pytest
import uvicorn

from tests.life.world import ROOT, eventually
from tests.support.processes import free_ports

PAGE = (ROOT / "docs" / "webhooks.md").read_text("utf-8")


@pytest.mark.parametrize("kind", ["file"], indirect=True)
def test_the_receiver_of_the_page_takes_what_workers_send(app, hire, monkeypatch):
    source = next(
        text
        for text in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
        if text.startswith("# receiver.py\n")
    )
    there = {"__name__": "receiver"}
    exec(compile(source, "receiver.py", "exec"), there)  # noqa: S102 - the point
    (port,) = free_ports(1)
    config = uvicorn.Config(there["receiver"], host="127.0.0.1", port=port, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started)
        made = app.webhooks.create(f"http://127.0.0.1:{port}/seawall")
        monkeypatch.setenv("WEBHOOK_SECRET", "whsec_" + "A" * 44)
        job = app.tasks["well"].enqueue()
        hire(app)
        eventually(lambda: [j for j in app.jobs(task="seawall.webhook") if j.last_fault])
        assert there["had"] == {}, "what is signed with another secret is not taken"

        monkeypatch.setenv("WEBHOOK_SECRET", made.secret)
        (message,) = eventually(lambda: list(there["had"].values()))
        assert (message["type"], message["data"]["job"]) == ("job.complete", job.id)
    finally:
        server.should_exit = True
        thread.join()


def shape(body):
    """Its keys, however deep."""
    return {key: shape(value) for key, value in body.items()} if isinstance(body, dict) else None


@pytest.mark.parametrize("kind", ["file"], indirect=True)
def test_what_is_sent_has_the_shape_that_the_page_shows(app, receiver, hire):
    (shown,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    made = app.webhooks.create(receiver.url)
    app.tasks["badly"].enqueue()
    hire(app)

    (got,) = receiver.await_any()

    assert shape(got.verified(made.secret)) == shape(json.loads(shown))
