"""`python -m seawall`, and the installed `seawall`: the command line, loaded as late as can be."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C ends it without a word, even while it is still loading."""
    try:
        from seawall.cli import run  # noqa: PLC0415 - see above

        sys.exit(run())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
