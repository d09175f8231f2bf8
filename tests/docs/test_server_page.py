"""The server's page: every curl on it is run, in order, against a server with its application."""

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from seawall import access
from seawall.store import open_store
from tests.support.processes import answers, cannot, free_ports

PAGE = (Path(__file__).parent.parent.parent / "docs" / "server.md").read_text("utf-8")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def curls():
    for language, text in FENCED.findall(PAGE):
        if language == "sh":
            joined = text.replace("\\\n", " ")
            yield from (line for line in joined.splitlines() if line.startswith("curl "))


def test_every_curl_of_the_page_works(tmp_path):
    if shutil.which("curl") is None:
        cannot("there is no curl")
    source = next(text for language, text in FENCED.findall(PAGE) if language == "python")
    (tmp_path / "jobs.py").write_text(source, "utf-8")
    (port,) = free_ports(1)
    with open_store(f"sqlite:///{tmp_path}/jobs.db") as store:
        ann, _ = access.made(store, scope="owner", owner="ann")
        operator, _ = access.made(store, scope="operator")
    server = subprocess.Popen(
        [sys.executable, "-m", "seawall", "serve", "--app", "jobs:app", "--port", str(port)],
        cwd=tmp_path,
    )
    try:
        deadline = time.monotonic() + 60
        while not answers(port, "/ready") and time.monotonic() < deadline:
            time.sleep(0.1)
        commands = list(curls())
        assert len(commands) > 10
        for command in commands:
            done = subprocess.run(
                ["/bin/sh", "-c", command.replace(":8080", f":{port}")],
                env={"ANN": ann, "OPERATOR": operator, "PATH": "/usr/bin:/bin", "NO_PROXY": "*"},
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
            assert done.stdout.startswith(("{", "[")), command
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
