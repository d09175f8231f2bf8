"""How a rule says which faults it means (SPEC A7)."""

import asyncio
import http
import itertools

import pytest

from seawall.decisions.classify import Classifier
from seawall.decisions.matching import MOST_MATCHERS, class_name, matches, normalised
from seawall.faults import Fault, FaultCode


class PlainError(Exception):
    __module__ = "vendor._private.errors"


class SpecialError(PlainError):
    __module__ = "mine"


LIMITED = Fault(
    FaultCode.RATE_LIMITED, status=429, kinds=("openai.RateLimitError", "openai.APIError")
)
STREAMED = Fault(FaultCode.RATE_LIMITED)
BROKEN = Fault(FaultCode.UPSTREAM_ERROR, status=503)
BROKEN_IN_STREAM = Fault(FaultCode.UPSTREAM_ERROR)
LATE = Fault(FaultCode.TIMEOUT, kinds=("httpx.ReadTimeout", "httpx.TimeoutException"))
LATE_ANSWER = Fault(FaultCode.TIMEOUT, status=408)
GONE = Fault(FaultCode.UNAVAILABLE)
BUG = Fault(FaultCode.INTERNAL_ERROR, kinds=("KeyError", "LookupError"))
ALL = [LIMITED, STREAMED, BROKEN, BROKEN_IN_STREAM, LATE, LATE_ANSWER, GONE, BUG]

TABLE = [
    (429, [LIMITED, STREAMED]),
    (http.HTTPStatus.TOO_MANY_REQUESTS, [LIMITED, STREAMED]),
    (503, [BROKEN]),
    (500, [BROKEN_IN_STREAM]),
    (408, [LATE_ANSWER]),
    ("5xx", [BROKEN, BROKEN_IN_STREAM]),
    ("4xx", [LIMITED, STREAMED, LATE_ANSWER]),
    ("2xx", []),
    (FaultCode.TIMEOUT, [LATE, LATE_ANSWER]),
    ("RATE_LIMITED", [LIMITED, STREAMED]),
    ("WORKER_LOST", []),
    ("openai.RateLimitError", [LIMITED]),
    ("openai.APIError", [LIMITED]),
    ("openai._exceptions.APIError", [LIMITED]),
    ("anthropic.APIError", []),
    ("APIError", [LIMITED]),
    ("httpx._exceptions.TimeoutException", [LATE]),
    ("KeyError", [BUG]),
    ("builtins.LookupError", [BUG]),
    (KeyError, [BUG]),
    (LookupError, [BUG]),
    (OSError, []),
    ("transport", [LATE, GONE]),
    ("all", ALL),
    ("none", []),
    ([429, "5xx"], [LIMITED, STREAMED, BROKEN, BROKEN_IN_STREAM]),
    ((KeyError, "transport"), [LATE, GONE, BUG]),
    (Exception, ALL),
    ("BaseException", ALL),
]


@pytest.mark.parametrize(("on", "meant"), TABLE)
def test_a_matcher_means_these_faults_and_no_others(on, meant):
    matchers = normalised(on)
    assert [fault for fault in ALL if matches(matchers, fault)] == meant


@pytest.mark.parametrize(("on", "meant"), TABLE)
def test_normalising_twice_changes_nothing(on, meant):
    matchers = normalised(on)
    assert normalised(matchers) == matchers
    assert hash(matchers)
    assert all(isinstance(matcher, str | int) for matcher in matchers)


def test_a_class_means_its_subclasses_wherever_its_package_keeps_it():
    fault = Classifier().classify(SpecialError("x"))
    for on in (
        PlainError,
        SpecialError,
        "vendor.PlainError",
        "vendor.errors.PlainError",
        "SpecialError",
    ):
        assert matches(normalised(on), fault)
    assert not matches(normalised("other.PlainError"), fault)
    assert not matches(normalised(PlainError), Classifier().classify(ValueError("x")))


def test_a_class_is_named_by_its_package():
    assert class_name(PlainError) == "vendor.PlainError"
    assert class_name(SpecialError) == "mine.SpecialError"
    assert class_name(TimeoutError) == class_name(asyncio.TimeoutError) == "TimeoutError"
    assert class_name(asyncio.CancelledError) == "asyncio.CancelledError"


def test_a_class_is_named_whatever_its_metaclass_says():
    class Raising(type):
        @property
        def __name__(cls):
            raise ZeroDivisionError

        @property
        def __module__(cls):
            raise ZeroDivisionError

    hostile = Raising("Hostile", (Exception,), {"__module__": "vendor.x"})
    assert class_name(hostile) == "vendor.Hostile"
    for module in (None, 7, object(), ["x"]):
        assert class_name(type("Odd", (Exception,), {"__module__": module})) == "Odd"


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("RATE_LIMTED", "RATE_LIMITED"),
        ("RATELIMITED", "RATE_LIMITED"),
        ("rate_limited", "RATE_LIMITED"),
        ("Rate_Limited", "RATE_LIMITED"),
        ("rate_limted", "RATE_LIMITED"),
        ("timeout", "TIMEOUT"),
        ("Timeout", "TIMEOUT"),
        ("TIMEOUTS", "TIMEOUT"),
        ("UPSTREAM_ERR", "UPSTREAM_ERROR"),
        ("ALL", "all"),
        ("All", "all"),
        ("None", "none"),
        ("Transport", "transport"),
        ("TRANSPORTS", "transport"),
        ("rate limited", "RATE_LIMITED"),
    ],
)
def test_a_misspelt_word_is_refused_with_a_suggestion(misspelt, meant):
    with pytest.raises(
        ValueError, match=rf"found '{misspelt}', expected .*; did you mean {meant}\?"
    ):
        normalised(misspelt)


@pytest.mark.parametrize(
    "nonsense",
    [
        "", " ", "429", "5XX", "6xx", "0xx", "QWERTY", "a b", "openai.", ".APIError", "openai..APIError",
        "*", "httpx.*", 0, 99, 600, -1, True, False, 4.29, None, object(), int, object, [None], [[429]],
        b"5xx", [b"5xx"], ["429\n"],
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused_with_a_list_of_what_does(nonsense):
    with pytest.raises(ValueError, match="expected a fault code, an HTTP status"):
        normalised(nonsense)


def test_a_rule_has_at_least_one_and_at_most_a_hundred_matchers():
    with pytest.raises(ValueError, match="found 0 entries, expected 1 to 100"):
        normalised([])
    with pytest.raises(ValueError, match="expected 1 to 100"):
        normalised(itertools.repeat(429))
    assert len(normalised(list(range(400, 400 + MOST_MATCHERS)))) == MOST_MATCHERS


@pytest.mark.parametrize("on", [["none", "KeyError"], ["TIMEOUT", "all"], ["none", "all"]])
def test_all_and_none_stand_alone(on):
    with pytest.raises(ValueError, match="beside others, expected it alone"):
        normalised(on)
