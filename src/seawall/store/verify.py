"""Proving that the ledger is whole.

The schema forbids what one row alone can get wrong; this looks for what several rows can. Each rule
is a statement of `verify.sql` that finds the jobs which break it. Everything is read in one
instant, so it may run beside any amount of traffic.
"""

from seawall.states import State
from seawall.store import statements
from seawall.store.backend import Session
from seawall.store.values import Verification, Violation

MOST_SHOWN = 20
MOST_COUNTED = 1_000
BOOKS = "books"


def verified(session: Session, dialect: str) -> Verification:
    """What stands in the store at this moment, and every rule that is broken."""
    entered, present, pruned = session.all(BOOKS)[0]
    found: dict[str, int] = dict(session.all("count_states"))
    broken = [*_unbalanced(dialect, entered, present, pruned), *_broken(session, dialect)]
    states = {state: found.get(str(state), 0) for state in State}
    return Verification(entered, states, pruned, tuple(broken))


def _unbalanced(dialect: str, entered: int, present: int, pruned: int) -> list[Violation]:
    missing = entered - present - pruned
    if not missing:
        return []
    promise = statements.load(dialect)[BOOKS].promise
    return [
        Violation(BOOKS, f"{promise} ({entered:,} ≠ {present:,} + {pruned:,})", abs(missing), ())
    ]


def _broken(session: Session, dialect: str) -> list[Violation]:
    violations = []
    for statement in statements.load(dialect).values():
        if statement.verb != "verify" or statement.name == BOOKS:
            continue
        jobs = [row[0] for row in session.all(statement.name, limit=MOST_COUNTED)]
        if jobs:
            shown = tuple(sorted(jobs)[:MOST_SHOWN])
            violations.append(Violation(statement.name, statement.promise, len(jobs), shown))
    return violations
