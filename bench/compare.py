"""seawall beside other queues, on one machine, in turns: `python bench/compare.py`.

Each queue runs in an environment of its own at its best durable settings, which stand in its
adapter in `bench/peers`. Without options everything is measured and docs/benchmarks.md and
docs/benchmarks.svg are written; a part or a quick run is only printed.

    .venv/bin/python bench/compare.py --quick --only seawall,pgqueuer --scenario drain --processes 1
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH.parent)]

from harness import report, saved, servers  # noqa: E402 - found by the line above
from harness.suite import BACKENDS, FULL, PEERS, QUICK, SCENARIOS, Found, Suite  # noqa: E402


def main() -> None:
    given = parsed()
    if given.render:
        report.write(*saved.load())
        return
    found = measured(given)
    print(report.text(found))
    if not any((given.quick, given.only, given.scenario, given.backend, given.processes)):
        report.write(*saved.load())


def measured(given: argparse.Namespace) -> list[Found]:
    """Every table that is wanted; kept as soon as it is there."""
    wanted = [
        peer
        for peer in PEERS
        if (not given.only or peer.name in given.only)
        and (not given.backend or peer.backend in given.backend)
        and (peer.backend != "redis" or servers.has_redis())
    ]
    found, size = [], QUICK if given.quick else FULL
    changed = {"rounds": given.rounds, "processes": given.processes}
    size = replace(size, **{name: value for name, value in changed.items() if value})
    with servers.running({peer.backend for peer in wanted}) as new_urls:
        suite = Suite([(peer, new_urls[peer.backend]) for peer in wanted], size)
        for each in suite.run(given.scenario or SCENARIOS):
            found.append(each)
            saved.save(found, report.facts(size.rounds))
    return found


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer jobs and rounds")
    parser.add_argument("--render", action="store_true", help="write the docs of the last run")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", type=listed, help="these queues: seawall,pgqueuer")
    parser.add_argument("--scenario", type=listed, help=f"these: {','.join(SCENARIOS)}")
    parser.add_argument("--backend", type=listed, help=f"these: {','.join(BACKENDS)}")
    parser.add_argument("--processes", type=lambda text: [int(n) for n in listed(text)])
    return parser.parse_args()


def listed(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
