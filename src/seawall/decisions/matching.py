"""How a rule says which faults it means.

A matcher is plain data, so that a policy can be written in TOML, compared and hashed:

    RATE_LIMITED        a fault code               429, "5xx"     an HTTP status, or a class of them
    "openai.APIError"   an exception's name, its   "transport"    no answer came: TIMEOUT or
                        subclasses included                       UNAVAILABLE without a status
    "all"               every fault                "none"         no fault

An exception class stands for its name. Names are compared as `package.ClassName`, so it does not
matter in which private module of its package a client keeps the class.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from seawall.faults import Fault, FaultCode

Matcher = FaultCode | int | str
Matchers = Matcher | type[BaseException] | Iterable[Matcher | type[BaseException]]

KEYWORDS = ("all", "none", "transport")
MOST_MATCHERS = 100

_STATUS_CLASS = re.compile(r"[1-5]xx")
_CLASS_NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*", re.ASCII)
_LOOKS_LIKE_A_CODE = re.compile(r"[A-Z][A-Z0-9_]*|[a-z0-9]+(?:_[a-z0-9]+)+")
_WORDS = {word.upper(): word for word in (*KEYWORDS, *FaultCode.__members__)}
_NAME_OF = type.__dict__["__name__"].__get__
_MODULE_OF = type.__dict__["__module__"].__get__
_TRANSPORT = frozenset({FaultCode.TIMEOUT, FaultCode.UNAVAILABLE})
_IMPLIED_STATUS = {FaultCode.RATE_LIMITED: 429, FaultCode.UPSTREAM_ERROR: 500}

ALLOWED = (
    'a fault code, an HTTP status (429, "5xx"), an exception name ("httpx.ReadTimeout"), '
    '"transport", "all" or "none"'
)


def normalised(on: Matchers) -> tuple[Matcher, ...]:
    """The matchers as plain data; `ValueError` where one means nothing."""
    one = isinstance(on, str | int | type) or not isinstance(on, Iterable)
    several = [on] if one else list(islice(on, MOST_MATCHERS + 1))  # type: ignore[arg-type]
    if not 1 <= len(several) <= MOST_MATCHERS:
        raise ValueError(f"found {len(several)} entries, expected 1 to {MOST_MATCHERS}")
    found = tuple(dict.fromkeys(_normal(item) for item in several))
    alone = next((word for word in ("all", "none") if word in found), None)
    if alone is not None and len(found) > 1:
        raise ValueError(f"found {alone!r} beside others, expected it alone")
    return found


def matches(on: tuple[Matcher, ...], fault: Fault) -> bool:
    """Whether any of the matchers means this fault."""
    return any(_means(matcher, fault) for matcher in on)


def class_name(kind: type) -> str:
    """`package.ClassName`; a builtin has no package.

    Both are read past any metaclass, which could answer with something else or raise.
    """
    name, module = str(_NAME_OF(kind)), _MODULE_OF(kind)
    root = module.partition(".")[0] if type(module) is str else ""
    return name if root in ("", "builtins") else f"{root}.{name}"


def _normal(item: object) -> Matcher:
    if isinstance(item, FaultCode):
        return item
    if isinstance(item, type) and issubclass(item, BaseException):
        return _normal_text(class_name(item))
    if isinstance(item, int) and not isinstance(item, bool) and 100 <= item <= 599:
        return int(item)
    if isinstance(item, str):
        return _normal_text(item)
    raise ValueError(f"found {item!r}, expected {ALLOWED}")


def _normal_text(text: str) -> Matcher:
    if text in ("Exception", "BaseException"):  # the classes of everything
        return "all"
    if text in KEYWORDS or _STATUS_CLASS.fullmatch(text):
        return text
    if text in FaultCode.__members__:
        return FaultCode[text]
    misspelt = text.upper() in _WORDS or _LOOKS_LIKE_A_CODE.fullmatch(text)
    if misspelt or not _CLASS_NAME.fullmatch(text):
        near = get_close_matches(text.upper(), _WORDS, n=1)
        hint = f"; did you mean {_WORDS[near[0]]}?" if near else ""
        raise ValueError(f"found {text!r}, expected {ALLOWED}{hint}")
    return short_name(text)


def short_name(dotted: str) -> str:
    """`package.ClassName` of a class's dotted path, as `class_name` gives it for the class."""
    package, _, _ = dotted.partition(".")
    name = dotted.rpartition(".")[2]
    return name if package in (name, "builtins") else f"{package}.{name}"


def _means(matcher: Matcher, fault: Fault) -> bool:
    if isinstance(matcher, FaultCode):
        return fault.code is matcher
    if isinstance(matcher, int):
        return matcher == _status(fault)
    if matcher in KEYWORDS:
        return matcher == "all" or (
            matcher == "transport" and fault.status is None and fault.code in _TRANSPORT
        )
    if _STATUS_CLASS.fullmatch(matcher):
        status = _status(fault)
        return status is not None and status // 100 == int(matcher[0])
    if "." in matcher:
        return matcher in fault.kinds
    return any(kind.rpartition(".")[2] == matcher for kind in fault.kinds)


def _status(fault: Fault) -> int | None:
    """The fault's status; where no answer carried one, the status that its code stands for."""
    return fault.status if fault.status is not None else _IMPLIED_STATUS.get(fault.code)
