"""Run the simulations of docs/simulator.md anew: its pictures and its tables (some minutes).

A table stands between `<!-- simulated: NAME -->` and `<!-- end -->`, with the command that made it.
"""

import json
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "simulator.md"
PICTURES = ROOT / "docs" / "simulator"
PART = re.compile(r"(<!-- simulated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
SEEDS = 5
ROWS = {
    "amplification": "calls for each job",
    "failed_calls": "failed calls",
    "dead_letters": "dead letters",
    "success_p50_seconds": "time to success, half",
    "success_p95_seconds": "time to success, 95 of 100",
    "clear_seconds": "until the backlog is gone",
    "peak_calls_per_second": "most calls in a second",
}


def seawall(*words: str) -> Any:
    command = [sys.executable, "-m", "seawall", "simulate", *words, "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PICTURES)
    return json.loads(done.stdout)


def table(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(name: str, found: dict[str, Any] | None) -> str:
    if found is None:
        return "–"
    low, high = found["ci95"]
    digits = 2 if name == "amplification" else 0
    unit = " s" if name.endswith("_seconds") else ""
    return f"{found['mean']:,.{digits}f} ± {(high - low) / 2:,.{digits}f}{unit}"


def compared(name: str) -> str:
    words = [name, "--seeds", str(SEEDS), "--svg", f"{name}.svg"]
    told = seawall(*words)
    choices = told["choices"]
    rows = [["", *(each["name"] for each in choices)]]
    rows += [
        [words, *(figure(key, each[key]) for each in choices)]
        for key, words in ROWS.items()
        if any(each[key] for each in choices)
    ]
    verdict = "\n".join(f"> {line}  " for line in told["verdict"])
    return f"{shown(words)}\n\n{table(rows)}\n\n{verdict}\n\n![{name}](simulator/{name}.svg)\n"


def contention() -> str:
    words = ["contention", "--clients", "100", "--runs", "100"]
    rows = [["back-off", "calls", "time"]]
    for each in seawall(*words):
        calls, time = each["calls_ci95"], each["time_ms_ci95"]
        rows.append(
            [
                each["backoff"],
                f"{each['calls_mean']:,.0f} ± {(calls[1] - calls[0]) / 2:,.0f}",
                f"{each['time_ms_mean']:,.0f} ± {(time[1] - time[0]) / 2:,.0f} ms",
            ]
        )
    return f"{shown(words)}\n\n{table(rows)}\n"


def shown(words: list[str]) -> str:
    return f"`seawall simulate {shlex.join(words)}`"


def main() -> int:
    """Each part is written as soon as it is known; names as arguments are the only ones made."""
    PICTURES.mkdir(exist_ok=True)
    names = [part[2] for part in PART.finditer(PAGE.read_text("utf-8"))]
    for name in sys.argv[1:] or names:
        print(name, flush=True)
        told = contention() if name == "contention" else compared(name)
        text = PAGE.read_text("utf-8")
        PAGE.write_text(PART.sub(partial(_filled, name, told), text), "utf-8")
    return 0


def _filled(name: str, told: str, part: "re.Match[str]") -> str:
    return f"{part[1]}{told}{part[3]}" if part[2] == name else part[0]


if __name__ == "__main__":
    sys.exit(main())
