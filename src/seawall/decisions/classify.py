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
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Literal, TypeVar

from seawall.decisions.clients import CLIENTS, DATA_ERRORS
from seawall.decisions.matching import class_name
from seawall.decisions.readers import TO_ANY_CAUSE, Reading, by_attributes
from seawall.decisions.reading import Facts, facts_of, told_by
from seawall.errors import FaultError
from seawall.faults import Fault, FaultCode

DEEPEST_CHAIN = 16
WIDEST_GROUP = 50
MOST_KINDS = 40
_ROOTS = frozenset({"BaseException", "Exception", "object"})

Own = Callable[[BaseException], "FaultCode | Fault | None"]
OwnT = TypeVar("OwnT", bound=Callable[..., "FaultCode | Fault | None"])
Validating = Literal["output", "input"]


class Classifier:
    """A set of classifiers: an application's own on top of the built-in table."""

    def __init__(self) -> None:
        self._own: dict[str, Own] = {}

    def register(self, *classes: str | type[BaseException]) -> Callable[[OwnT], OwnT]:
        """Decorate the function that judges these exceptions and their subclasses.

        A later registration replaces an earlier one for the same name. Names are dotted paths;
        the private modules in between do not matter.
        """
        if not classes:
            raise TypeError('name at least one exception: @classifier("package.ClassName")')
        names = [_registered_name(item) for item in classes]

        def put(function: OwnT) -> OwnT:
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
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001 - a hostile object must not stop a worker
            return Fault(FaultCode.UNKNOWN, f"{_kind(exc)}: cannot be read")

    def _classified(self, exc: object, validating: Validating, now: datetime | None) -> Fault:
        if isinstance(exc, Fault):
            return exc
        if not isinstance(exc, BaseException):
            return Fault(FaultCode.UNKNOWN, f"not an exception: {_kind(exc)}")
        if isinstance(exc, BaseExceptionGroup):
            return self._of_group(exc, validating, now)
        best: tuple[Reading | Fault, BaseException, Facts] | None = None
        for link in _chain(exc):
            facts = facts_of(link, now=now)
            reading = self._reading(link, facts)
            if reading is None or not _may_decide(reading, link is exc, best):
                continue
            best = (reading, link, facts)
            if isinstance(reading, Fault) or not reading.yields_to:
                break
        if best is None:
            return _fault(Reading(FaultCode.UNKNOWN), exc, exc, facts_of(exc, now=now))
        decided, link, facts = best
        if isinstance(decided, Fault):
            return replace(decided, kinds=decided.kinds or _kinds(exc))
        if validating == "input" and not DATA_ERRORS.isdisjoint(_kinds(link)):
            decided = replace(decided, code=FaultCode.INVALID_INPUT)
        return _fault(decided, exc, link, facts)

    def _reading(self, exc: BaseException, facts: Facts) -> Reading | Fault | None:
        kinds = _kinds(exc)
        for kind in kinds:
            own = self._own.get(kind)
            opinion = None if own is None else _opinion(own, exc)
            if isinstance(opinion, Fault):
                return opinion
            if opinion is not None:
                return Reading(opinion)
        if isinstance(exc, FaultError):
            return _stated(exc, kinds)
        for kind in kinds:
            row = CLIENTS.get(kind)
            reading = row if isinstance(row, Reading) or row is None else row(exc, facts)
            if reading is not None:
                return reading
        return by_attributes(exc, facts)

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


def _may_decide(
    reading: Reading | Fault,
    is_outermost: bool,
    best: tuple[Reading | Fault, BaseException, Facts] | None,
) -> bool:
    """Whether this link of the chain outranks what was found outside of it."""
    if is_outermost:
        return True
    outranked = TO_ANY_CAUSE if best is None or isinstance(best[0], Fault) else best[0].yields_to
    return reading.code in outranked


def _fault(reading: Reading, exc: BaseException, link: BaseException, facts: Facts) -> Fault:
    message = f"{_kind(exc)}: {_said(exc, facts if link is exc else None)}"
    if link is not exc:
        message += f" (from {_kind(link)}: {_said(link, facts)})"
    return Fault(
        reading.code,
        message,
        status=facts.status,
        retry_after_seconds=facts.retry_after_seconds,
        request_id=facts.request_id,
        ambiguous=reading.ambiguous,
        final=facts.told_not_to_retry,
        kinds=tuple(dict.fromkeys([*_kinds(exc), *_kinds(link)])),
    )


def _said(exc: BaseException, facts: Facts | None) -> str:
    return (facts.text if facts is not None else None) or told_by(exc) or "no message"


def _stated(exc: FaultError, kinds: tuple[str, ...]) -> Fault:
    """What a handler said in so many words."""
    known = exc.code in FaultCode.__members__
    return Fault(
        FaultCode[exc.code] if known else FaultCode.UNKNOWN,
        told_by(exc),
        status=exc.status,
        retry_after_seconds=exc.retry_after_seconds,
        request_id=exc.request_id,
        ambiguous=exc.ambiguous,
        detail=exc.detail,
        kinds=kinds,
    )


def _opinion(own: Own, exc: BaseException) -> FaultCode | Fault | None:
    """What the application's classifier says; one that fails or answers nonsense says nothing."""
    try:
        answer = own(exc)
        return answer if answer is None or isinstance(answer, Fault) else FaultCode(answer)
    except Exception:  # noqa: BLE001 - classify never raises
        return None


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, from the outside in; bounded, and safe from circles."""
    seen: set[int] = set()
    link: BaseException | None = exc
    for _ in range(DEEPEST_CHAIN):
        if link is None or id(link) in seen:
            return
        seen.add(id(link))
        yield link
        inner = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        link = inner if isinstance(inner, BaseException) else None


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    waiting: list[BaseException] = [group]
    while waiting and len(found) < WIDEST_GROUP:
        item = waiting.pop(0)
        if isinstance(item, BaseExceptionGroup):
            waiting[:0] = item.exceptions[:WIDEST_GROUP]
        else:
            found.append(item)
    return found


def _kinds(exc: BaseException) -> tuple[str, ...]:
    """The names of its classes, most specific first, without the roots that say nothing."""
    names = (class_name(kind) for kind in islice(type(exc).__mro__, MOST_KINDS))
    return tuple(name for name in names if name not in _ROOTS)


def _kind(exc: object) -> str:
    return type(exc).__name__


def _registered_name(item: str | type[BaseException]) -> str:
    if isinstance(item, type):
        return class_name(item)
    package, _, rest = item.partition(".")
    name = rest.rpartition(".")[2] or package
    return name if package in (name, "builtins") else f"{package}.{name}"
