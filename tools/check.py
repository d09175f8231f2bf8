"""Run every static check at once and show only what failed.

The checks are independent, so they share the cores; each prints one line when it passes.
"""

import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent

CHECKS: dict[str, list[str]] = {
    "types": [f"{BIN}/mypy"],
    "lint": [f"{BIN}/ruff", "check", "--quiet", "."],
    "format": [f"{BIN}/ruff", "format", "--check", "--quiet", "."],
    "layers": [f"{BIN}/lint-imports", "--no-cache"],
    "generated docs": [sys.executable, "tools/generate_docs.py", "--check"],
}


def main() -> int:
    started = time.monotonic()
    running = {
        name: subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for name, command in CHECKS.items()
    }
    failed = 0
    for name, process in running.items():
        output, _ = process.communicate()
        if process.returncode:
            failed += 1
            print(f"check {name}: FAILED\n{output}")
        else:
            print(f"check {name}: ok")
    print(f"checks: {len(CHECKS) - failed} ok, {failed} failed, {time.monotonic() - started:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
