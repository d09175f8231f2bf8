"""A small gateway that makes XML of PDFs, and can be told to fail, to be slow or to talk nonsense.

python -m examples.converter.gateway --port 8090
"""

import argparse
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.sax.saxutils import escape

LARGEST_BODY = 32 * 1024 * 1024


class Mood:
    """What it was told, and what it has done."""

    def __init__(self) -> None:
        self.status = 200
        """What every conversion is answered with."""
        self.error = "GATEWAY_SAYS_NO"
        """The word that goes with a status that is not 200."""
        self.seconds = 0.0
        """How long each conversion takes."""
        self.is_garbled = False
        """Half of the XML is missing."""
        self.retry_after: int | None = None
        self.calls: list[str] = []
        """The idempotency key of each call, in the order of their beginning."""
        self.lock = threading.Lock()


class Desk(BaseHTTPRequestHandler):
    """Answers one request after the other."""

    mood = Mood()
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/calls":
            self._say(200, json.dumps(self.mood.calls))
        else:
            well = self.mood.status < 500
            self._say(200 if well else 503, json.dumps({"status": "well" if well else "ill"}))

    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("content-length") or 0), LARGEST_BODY))
        if self.path == "/tell":
            self._told(json.loads(body))
            return
        with self.mood.lock:
            self.mood.calls.append(self.headers.get("idempotency-key", ""))
        time.sleep(self.mood.seconds)
        if self.mood.status != 200:
            self._say(self.mood.status, json.dumps({"error": self.mood.error}))
        elif not body.startswith(b"%PDF-"):
            self._say(400, json.dumps({"error": "PARSE_ERROR"}))
        else:
            xml = as_xml(body)
            self._say(200, xml[: len(xml) // 2] if self.mood.is_garbled else xml, "application/xml")

    def _told(self, told: dict[str, Any]) -> None:
        for name in ("status", "error", "seconds", "retry_after"):
            if name in told:
                setattr(self.mood, name, told[name])
        self.mood.is_garbled = bool(told.get("garbled", self.mood.is_garbled))
        self._say(200, "{}")

    def _say(self, status: int, text: str, kind: str = "application/json") -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        if status in (429, 503) and self.mood.retry_after is not None:
            self.send_header("retry-after", str(self.mood.retry_after))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: who asks for it finds the calls at /calls."""


def as_xml(pdf: bytes) -> str:
    """The PDF's pages and the text that it shows, as far as that is not compressed."""
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    shown = re.findall(rb"\(((?:[^()\\]|\\.)*)\)\s*Tj", pdf)
    lines = [escape(line.decode("latin-1")) for line in shown]
    text = "".join(f"  <line>{line}</line>\n" for line in lines)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<document pages="{pages}">\n{text}</document>\n'
    )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--port", type=int, default=8090)
    given = asked.parse_args()
    with ThreadingHTTPServer(("127.0.0.1", given.port), Desk) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
