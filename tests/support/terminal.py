"""A terminal with nobody at it, for commands that show something in place."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from tests.support.doors import PATIENCE_SECONDS


class Terminal:
    """A command that believes that a person looks on."""

    def __init__(self, folder, *words, columns=180):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environ = {name: each for name, each in os.environ.items() if name != "COLUMNS"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "seawall", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**environ, "TERM": "xterm", "NO_COLOR": "1"},
            start_new_session=True,
            # Whoever runs the tests in the background has them ignore Ctrl-C; a person does not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        os.close(theirs)
        self.shown = ""

    def shows(self, words, times=1):
        """Wait until it has shown this so often."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.shown.count(words) < times:
            assert time.monotonic() < deadline, f"not {times}× {words!r} in: {self.shown!r}"
            self._read()

    def ended(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read():
            assert time.monotonic() < deadline, "it goes on"
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self):
        if not select.select([self._ours], [], [], 0.2)[0]:
            return True
        try:
            found = os.read(self._ours, 65_536)
        except OSError:  # the other end is closed
            found = b""
        self.shown += found.decode()
        return bool(found)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
