"""Any exception becomes a Fault.

The exception and its causes are read from the outside in. Each is looked up by its classes'
names, most specific first: the application's own classifiers, then the table of `clients`, then
whatever its attributes tell. The first that says something decides, unless it yields to a cause
that says more. Nothing is imported, nothing is raised, whatever hostile object is given.

    @classifier("plexapi.exceptions.NotFound")
    def still_scanning(error):
        return FaultCode.NOT_READY          # or a Fault, or None for "no opinion"
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from inspect import iscoroutinefunction
from itertools import islice
from typing import Literal, TypeVar

from seawall.decisions.clients import CLIENTS, DATA_ERRORS
from seawall.decisions.facts import (
    SAYS_NOTHING,
    Facts,
    attribute,
    facts_of,
    said_by,
    text_of,
    told_by,
)
from seawall.decisions.matching import class_name, short_name
from seawall.decisions.readers import TO_ANY_CAUSE, Reading, by_attributes
from seawall.errors import FaultError
from seawall.faults import Fault, FaultCode, code_named
from seawall.redact import LONGEST_REMEMBERED, MOST_REMEMBERED

DEEPEST_CHAIN = 16
WIDEST_GROUP = 50
MOST_GROUPS = 1_000
MOST_KINDS = 40
_MRO_OF = type.__dict__["__mro__"].__get__
_NAME_OF = type.__dict__["__name__"].__get__
_CAUSE_OF = BaseException.__dict__["__cause__"].__get__
_CONTEXT_OF = BaseException.__dict__["__context__"].__get__
_EXCEPTIONS_OF = BaseExceptionGroup.__dict__["exceptions"].__get__
_SUPPRESSED_OF = BaseException.__dict__["__suppress_context__"].__get__
"""Read past the class that is asked: it may have put something of its own in their place."""

_ROOTS = ("Exception", "BaseException")
"""Classes of everything: a classifier for one of them is asked last, and no kind names them."""

Own = Callable[[BaseException], "FaultCode | Fault | None"]
OwnT = TypeVar("OwnT", bound=Callable[..., "FaultCode | Fault | None"])
Validating = Literal["output", "input"]


class Classifier:
    """A set of classifiers on top of the built-in table, and on top of another set where given."""

    def __init__(self, beneath: "Classifier | None" = None) -> None:
        self._own: dict[str, Own] = {}
        self._beneath = beneath

    def register(self, *classes: str | type[BaseException]) -> Callable[[OwnT], OwnT]:
        """Decorate the function that judges these exceptions and their subclasses.

        A later registration replaces an earlier one for the same name. Names are dotted paths;
        the private modules in between do not matter.
        """
        if not classes or not all(isinstance(item, str | type) for item in classes):
            raise TypeError('name the exceptions: @classifier("package.ClassName")')
        names = [class_name(c) if isinstance(c, type) else short_name(c) for c in classes]

        def put(function: OwnT) -> OwnT:
            if iscoroutinefunction(function):
                raise TypeError(f"{function.__name__}: a classifier cannot be async")
            self._own.update(dict.fromkeys(names, function))
            return function

        return put

    def classify(
        self,
        exc: object,
        *,
        validating: Validating = "output",
        now: datetime | None = None,
    ) -> Fault:
        """What went wrong, canonically.

        `validating` says whose data was being checked: a validation error of a model's output is
        an invalid response, of the job's input it is bad input. `now` serves only to measure a
        Retry-After date in a response that has no Date of its own.
        """
        try:
            return self._classified(exc, validating, now)
        except KeyboardInterrupt:  # a person's wish is nobody's fault
            raise
        except BaseException:  # noqa: BLE001 - a hostile object must not stop a worker
            return Fault(FaultCode.UNKNOWN, f"{_kind(exc)}: cannot be read")

    def _classified(self, exc: object, validating: Validating, now: datetime | None) -> Fault:
        if isinstance(exc, Fault) and issubclass(type(exc), Fault):  # the first can be lied to
            return exc
        if not isinstance(exc, BaseException):
            return Fault(FaultCode.UNKNOWN, f"not an exception: {_kind(exc)}")
        if isinstance(exc, BaseExceptionGroup) and not any(map(self.registered_for, _kinds(exc))):
            return self._of_group(exc, validating, now)
        path: list[_Link] = []
        best: _Link | None = None
        for error in _chain(exc):
            link = self._link(error, now)
            path.append(link)
            if link.reading is None or not _may_decide(link, best, is_outermost=error is exc):
                continue
            best = link
            if not link.yields_to:
                break
        if best is None:
            return _fault(Reading(FaultCode.UNKNOWN), path[:1])
        path = path[: path.index(best) + 1]
        decided = best.reading
        if isinstance(decided, Fault):
            return _completed(decided, path)
        about_data = not DATA_ERRORS.isdisjoint(best.kinds)
        if validating == "input" and about_data and best.code is FaultCode.INVALID_RESPONSE:
            decided = Reading(FaultCode.INVALID_INPUT)
        return _fault(decided or Reading(FaultCode.UNKNOWN), path)

    def _link(self, exc: BaseException, now: datetime | None) -> "_Link":
        kinds = _kinds(exc)
        facts = facts_of(exc, now=now)
        reading: Reading | Fault | None
        reading, complaint = self._own_opinion(exc, kinds)
        if reading is None and isinstance(exc, FaultError):
            reading = _stated(exc, facts_of(_inner(exc), now=now))
        if reading is None:
            reading = _by_table(exc, kinds, facts)
        if reading is None:
            reading, also = self._own_opinion(exc, _ROOTS)
            complaint = complaint or also
        return _Link(exc, kinds, facts, reading, complaint)

    def _own_opinion(
        self, exc: BaseException, kinds: tuple[str, ...]
    ) -> tuple[Reading | Fault | None, str | None]:
        """What the application's classifiers say, and what is wrong with them, if anything."""
        complaint = None
        for kind in kinds:
            for own in self.registered_for(kind):
                opinion, wrong = _opinion(own, exc)
                complaint = complaint or wrong
                if opinion is not None:
                    return opinion if isinstance(opinion, Fault) else Reading(opinion), None
        return None, complaint

    def registered_for(self, kind: str) -> "tuple[Own, ...]":
        """Those for this kind of exception: its own first, then that of the set beneath."""
        own = self._own.get(kind)
        beneath = () if self._beneath is None else self._beneath.registered_for(kind)
        return beneath if own is None else (own, *beneath)

    def _of_group(
        self, group: BaseExceptionGroup[BaseException], validating: Validating, now: datetime | None
    ) -> Fault:
        """Of several at once, the first that a cause could have brought about."""
        faults = [self.classify(leaf, validating=validating, now=now) for leaf in _leaves(group)]
        telling = (fault for fault in faults if fault.code in TO_ANY_CAUSE)
        return next(telling, faults[0] if faults else Fault(FaultCode.UNKNOWN, told_by(group)))


CLASSIFIER = Classifier()
"""The classifier that `classify` and `@classifier` use."""

classify = CLASSIFIER.classify
classifier = CLASSIFIER.register
"""Register a classifier of your own for the exceptions that it names; a decorator."""


@dataclass(frozen=True, slots=True, eq=False)
class _Link:
    """One exception of the chain, read once."""

    error: BaseException
    kinds: tuple[str, ...]
    facts: Facts
    reading: Reading | Fault | None
    complaint: str | None = None
    """What is wrong with the application's classifier for it, if anything."""

    @property
    def code(self) -> FaultCode | None:
        return None if self.reading is None else self.reading.code

    @property
    def yields_to(self) -> frozenset[FaultCode]:
        """The codes of a cause that outrank this; a whole Fault is the last word."""
        return self.reading.yields_to if isinstance(self.reading, Reading) else frozenset()

    @property
    def said(self) -> str:
        words = f"{_kind(self.error)}: {self.facts.text or said_by(self.error) or 'no message'}"
        return words if self.complaint is None else f"[{self.complaint}] {words}"


def _may_decide(link: _Link, best: _Link | None, *, is_outermost: bool) -> bool:
    """Whether this link of the chain outranks what was found outside of it."""
    outranked = TO_ANY_CAUSE if best is None else best.yields_to
    return is_outermost or link.code in outranked


def _by_table(exc: BaseException, kinds: tuple[str, ...], facts: Facts) -> Reading | None:
    """What the table of clients says, else what the attributes tell."""
    for kind in kinds:
        row = CLIENTS.get(kind)
        reading = row if isinstance(row, Reading) or row is None else row(exc, facts)
        if reading is not None:
            return reading
    return by_attributes(exc, facts)


def _fault(reading: Reading, path: list[_Link]) -> Fault:
    """The fault that the last link of the path decides; the first is what was raised."""
    raised, decisive = path[0], path[-1]
    facts = decisive.facts
    said = raised.said if raised is decisive else f"{raised.said} (from {decisive.said})"
    if facts is SAYS_NOTHING and len(said) <= LONGEST_REMEMBERED:
        return _again(reading.code, said, reading.ambiguous, _kinds_along(path))
    return Fault(
        reading.code,
        said,
        status=facts.status,
        retry_after_seconds=facts.retry_after_seconds,
        request_id=facts.request_id,
        ambiguous=reading.ambiguous,
        final=facts.told_not_to_retry,
        kinds=_kinds_along(path),
    )


@lru_cache(maxsize=MOST_REMEMBERED)
def _again(code: FaultCode, said: str, ambiguous: bool, kinds: tuple[str, ...]) -> Fault:
    """The same trouble comes by the thousand: of those that say nothing else, one is kept."""
    return Fault(code, said, ambiguous=ambiguous, kinds=kinds)


def _kinds_along(path: list[_Link]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kind for link in path for kind in link.kinds))


def _completed(fault: Fault, path: list[_Link]) -> Fault:
    """A fault that somebody stated, with the names along the way and, lacking one, a message."""
    kinds = tuple(dict.fromkeys([*_kinds_along(path), *fault.kinds]))
    if fault.message == fault.code.meaning:
        return replace(fault, message=path[0].said, kinds=kinds, fingerprint="")
    return replace(fault, kinds=kinds)


def _stated(exc: FaultError, cause: Facts) -> Fault:
    """What a handler said in so many words, with what only the cause's response knows."""
    code, status = text_of(attribute(exc, "code")) or "", attribute(exc, "status")
    wait = attribute(exc, "retry_after_seconds")
    return Fault(
        FaultCode[code] if code in FaultCode.__members__ else FaultCode.UNKNOWN,
        told_by(exc),
        status=status if isinstance(status, int) else None,
        retry_after_seconds=cause.retry_after_seconds if wait is None else wait,
        request_id=text_of(attribute(exc, "request_id")) or cause.request_id,
        ambiguous=attribute(exc, "ambiguous") is True,
        detail=text_of(attribute(exc, "detail")),
        final=cause.told_not_to_retry,
        kinds=_kinds(exc),
    )


def _opinion(own: Own, exc: BaseException) -> tuple[FaultCode | Fault | None, str | None]:
    """What a classifier says; of one that fails or answers nonsense, what is wrong with it."""
    name = getattr(own, "__name__", type(own).__name__)
    try:
        answer = own(exc)
        known = answer is None or isinstance(answer, Fault)
        return (answer if known else code_named(answer)), None
    except Exception as error:  # noqa: BLE001 - classify never raises
        return None, f"classifier {name} failed: {type(error).__name__}"


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, from the outside in; bounded, and safe from circles.

    Of a group that is a cause, the members are causes as well.
    """
    seen: set[int] = set()
    waiting: list[BaseException] = [exc]
    while waiting and len(seen) < DEEPEST_CHAIN:
        link = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        inner = _inner(link)
        if inner is not None:
            waiting.append(inner)
        if isinstance(link, BaseExceptionGroup):
            waiting.extend(reversed(_leaves(link)))


def _inner(exc: BaseException) -> BaseException | None:
    """What it was raised from, or while handling what; None where somebody chose to hide that."""
    cause: BaseException | None = _CAUSE_OF(exc)
    if cause is None and (not _SUPPRESSED_OF(exc) or _loses_causes(exc)):
        cause = _CONTEXT_OF(exc)
    return cause


def _loses_causes(exc: BaseException) -> bool:
    """Whether `from None` hides nothing: httpcore's pool so re-raises all that passes through."""
    return class_name(type(exc)).startswith(("httpcore.", "httpcore2."))


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The first exceptions in the group and the groups inside it that are no groups themselves."""
    found: list[BaseException] = []
    waiting: list[BaseException] = [group]
    for _ in range(MOST_GROUPS):
        if not waiting or len(found) >= WIDEST_GROUP:
            break
        item = waiting.pop()
        if isinstance(item, BaseExceptionGroup):
            waiting.extend(reversed(_EXCEPTIONS_OF(item)[:WIDEST_GROUP]))
        else:
            found.append(item)
    return found


def _kinds(exc: BaseException) -> tuple[str, ...]:
    """The names of its classes, most specific first."""
    kind = type(exc)
    # A class of a class of its own may not even be fit for a table.
    return _kinds_again(kind) if type(kind) is type else _kinds_of(kind)  # type: ignore[arg-type]


def _kinds_of(kind: type) -> tuple[str, ...]:
    names = (class_name(each) for each in islice(_MRO_OF(kind), MOST_KINDS))
    return tuple(name for name in names if name not in _ROOTS and name != "object")


_kinds_again = lru_cache(maxsize=500)(_kinds_of)


def _kind(exc: object) -> str:
    return str(_NAME_OF(type(exc)))
