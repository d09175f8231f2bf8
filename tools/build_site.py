"""Build the site into `site/`, or into the folder that is named; whatever is wrong fails it.

Links that lead nowhere, headings that are not there, pages that the nav does not have: MkDocs warns
of them, and with `--strict` a warning is an error. (Not with `--quiet`, which is deaf to them.)
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_COMMAND = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    # Its theme would otherwise advertise a successor on every build: docs/decisions/0027 says more.
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*_COMMAND, "--site-dir", str(folder)],
        cwd=ROOT,
        env=quiet,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        print(f"{folder / 'index.html'}: {sum(1 for _ in folder.rglob('*.html'))} pages")
    else:
        print(*(line for line in done.stdout.splitlines() if "INFO" not in line), sep="\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
