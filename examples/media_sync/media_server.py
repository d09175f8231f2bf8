"""A small media server. It knows a file once it has scanned it, and can be told to be slow or die.

    python -m examples.media_sync.media_server --port 32400 --folder media

Files that appear in the folder are in its library `scan_seconds` later; until then they are 404.
What it knows it keeps in a file, so that it is all there when the server comes back.
"""

import argparse
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

LOOK_SECONDS = 0.05
LARGEST_BODY = 65_536
LIBRARY_FILE = ".library.json"


class Library:
    """The files that were scanned, and what is known of each."""

    def __init__(self, folder: Path, scan_seconds: float) -> None:
        self.scan_seconds = scan_seconds
        self.is_busy = False
        self.calls: list[str] = []
        self._folder = folder
        self._file = folder / LIBRARY_FILE
        kept = self._file.read_text() if self._file.exists() else "{}"
        self._items: dict[str, Any] = json.loads(kept)
        self._seen: dict[str, float] = {}
        self._lock = threading.Lock()

    def scan(self) -> None:
        """Look for new files, for ever."""
        while True:
            for file in self._folder.iterdir():
                since = self._seen.setdefault(file.name, time.monotonic())
                is_new = file.name not in self._items and not file.name.startswith(".")
                if is_new and time.monotonic() - since >= self.scan_seconds:
                    self.put(file.name, {}, is_known=True)
            time.sleep(LOOK_SECONDS)

    def get(self, path: str) -> Any:
        return self._items.get(path)

    def put(self, path: str, metadata: object, *, is_known: bool = False) -> bool:
        """Keep what is known of a file; false where the library does not have it."""
        with self._lock:
            if path not in self._items and not is_known:
                return False
            self._items[path] = metadata
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps(self._items))
            new.replace(self._file)
            return True


class Desk(BaseHTTPRequestHandler):
    """Answers one request after the other."""

    library: Library
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        where, path = self._asked()
        if where == "/health":
            self._say(200, {"status": "well"})
        elif where == "/calls":
            self._say(200, self.library.calls)
        elif (found := self.library.get(path)) is None:
            self._say(404, {"error": "not in the library"})
        else:
            self._say(200, found)

    def do_PUT(self) -> None:
        _, path = self._asked()
        self.library.calls.append(path)
        metadata = self._body()
        if self.library.is_busy:
            self._say(503, {"error": "too busy"})
        elif not isinstance(metadata, dict) or not metadata.get("title"):
            self._say(400, {"error": "a title is needed"})
        elif self.library.put(path, metadata):
            self._say(200, {"path": path})
        else:
            self._say(404, {"error": "not in the library"})

    def do_POST(self) -> None:
        """Do as you are told: scan slowly, be busy, die."""
        told = self._body()
        if not isinstance(told, dict):
            self._say(400, {"error": "an object is needed"})
            return
        if told.get("die"):
            os._exit(1)
        self.library.scan_seconds = float(told.get("scan_seconds", self.library.scan_seconds))
        self.library.is_busy = bool(told.get("busy", self.library.is_busy))
        self._say(200, {})

    def _asked(self) -> tuple[str, str]:
        parts = urlsplit(self.path)
        return parts.path, parse_qs(parts.query).get("path", [""])[0]

    def _body(self) -> Any:
        size = min(int(self.headers.get("content-length") or 0), LARGEST_BODY)
        try:
            return json.loads(self.rfile.read(size))
        except ValueError:
            return None

    def _say(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: who asks for it finds the calls at /calls."""


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--port", type=int, default=32400)
    asked.add_argument("--folder", type=Path, required=True)
    asked.add_argument("--scan-seconds", type=float, default=1.0)
    given = asked.parse_args()
    Desk.library = Library(given.folder, given.scan_seconds)
    threading.Thread(target=Desk.library.scan, daemon=True).start()
    with ThreadingHTTPServer(("127.0.0.1", given.port), Desk) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
