"""Refuse an old Python in one line, before anything is installed with it."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this is the file that an old Python reads
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(
        f"seawall needs Python 3.11 or later, found {found}: try `make setup PYTHON=python3.12`"
    )
