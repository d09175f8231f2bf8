"""How long an upstream asked us to wait, in every dialect, and rubbish that asks for nothing."""

import http.client
import io
import math
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime

import httpx
import multidict
import pytest
import requests.structures
from hypothesis import given, settings
from hypothesis import strategies as st

from seawall.decisions.retry_after import duration_seconds, hint_seconds

NOW = datetime(2026, 11, 16, 2, 0, 0, tzinfo=UTC)
DATE = "Mon, 16 Nov 2026 02:00:00 GMT"
EPOCH = int(NOW.timestamp())

HEADERS = [
    # (headers, the wait in seconds)
    ({"Retry-After": "30"}, 30),
    ({"retry-after": " 30 "}, 30),
    ({"RETRY-AFTER": "1.5"}, 1.5),
    ({"Retry-After": ".5"}, 0.5),
    ({"Retry-After": "+7"}, 7),
    ({"Retry-After": "1e2"}, 100),
    ({"Retry-After": 30}, 30),
    ({"Retry-After": 2.5}, 2.5),
    ({b"Retry-After": b"30"}, 30),
    ({"Retry-After": ["5", "30"]}, 30),
    ({"Retry-After": "5, 30"}, 30),
    ([("Retry-After", "5"), ("Retry-After", "30"), ("retry-after", "7")], 30),
    (((b"retry-after", b"30"),), 30),
    ({"Retry-After": "86400"}, 86_400),
    ({"Retry-After": "999999999"}, 999_999_999),
    ({"Retry-After": "53s"}, 53),
    ({"Retry-After": "Mon, 16 Nov 2026 02:00:45 GMT", "Date": DATE}, 45),
    ({"Retry-After": "Monday, 16-Nov-26 02:00:45 GMT", "Date": DATE}, 45),
    ({"Retry-After": "Mon Nov 16 02:00:45 2026", "Date": DATE}, 45),
    ({"Retry-After": "2026-11-16T02:00:45Z", "Date": DATE}, 45),
    ({"Retry-After": "2026-11-16T03:00:45.5+01:00", "Date": DATE}, 45.5),
    ({"Retry-After": str(EPOCH + 45), "Date": DATE}, 45),
    ({"Retry-After": str((EPOCH + 45) * 1_000), "Date": DATE}, 45),
    ({"retry-after-ms": "1500"}, 1.5),
    ({"retry-after-ms": "0.5"}, 0.0005),
    ({"x-amz-retry-after": "1500"}, 1.5),
    ({"grpc-retry-pushback-ms": "1500"}, 1.5),
    ({"grpc-retry-pushback-ms": "-1"}, None),
    ({"retry-after-ms": "1500", "Retry-After": "2"}, 2),
    ({"retry-after-ms": "2500", "Retry-After": "2"}, 2.5),
    ({"x-ratelimit-reset": "30"}, 30),
    ({"x-rate-limit-reset": str(EPOCH + 45), "date": DATE}, 45),
    ({"X-RateLimit-Reset": str((EPOCH + 45) * 1_000), "date": DATE}, 45),
    ({"x-ratelimit-reset-after": "1.25"}, 1.25),
    ({"x-ratelimit-reset-requests": "12ms", "x-ratelimit-reset-tokens": "6m0s"}, 360),
    ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3_723.5),
    ({"anthropic-ratelimit-requests-reset": "2026-11-16T02:00:10Z", "date": DATE}, 10),
    ({"anthropic-ratelimit-input-tokens-reset": "2026-11-16T02:00:10Z", "date": DATE}, 10),
    ({"ratelimit-reset": "30"}, 30),
    ({"RateLimit": '"default";r=0;t=30, "daily";r=5; t=60'}, 60),
    ({"x-ratelimit-remaining": "0", "x-ratelimit-limit": "30", "age": "9"}, None),
    ({}, None),
    (None, None),
]


@pytest.mark.parametrize(("headers", "wait"), HEADERS)
def test_a_header_in_any_dialect_is_understood(headers, wait):
    found = hint_seconds(headers)
    assert found == (wait if wait is None else pytest.approx(wait))


BODIES = [
    (
        {
            "error": {
                "details": [
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "53s"}
                ]
            }
        },
        53,
    ),
    ({"error": {"details": [{"retryDelay": "1.500s"}, {"retryDelay": "0.2s"}]}}, 1.5),
    ([{"error": {"details": [{"retryDelay": "53s"}]}}], 53),
    ({"retryDelay": {"seconds": 53, "nanos": 500_000_000}}, 53.5),
    ({"retry_delay": {"seconds": "53"}}, 53),
    ({"retryDelay": {"nanos": 500_000_000}}, None),
    ('{"retry_after": 7}', 7),
    (b'{"retry_after": 7.5}', 7.5),
    (bytearray(b' \n{"retry_after": "7"}'), 7),
    ({"retryAfter": 7}, 7),
    ({"retry-after": 7}, 7),
    ({"retry_after_seconds": 7}, 7),
    ({"retry_after_ms": 1_500}, 1.5),
    ({"retryAfterMs": "1500"}, 1.5),
    ({"parameters": {"retry_after": 7, "deeper": [{"retry_after": 9}]}}, 9),
    ({"retry_after": True}, None),
    ({"retry_after": None}, None),
    ({"retry_after": [7]}, None),
    ("retry_after: 7", None),
    ('{"retry_after": 7', None),
    ("7", None),
    ("", None),
    (None, None),
]


@pytest.mark.parametrize(("body", "wait"), BODIES)
def test_a_body_in_any_dialect_is_understood(body, wait):
    assert hint_seconds(None, body) == wait


def _http_client(pairs):
    text = "".join(f"{name}: {value}\r\n" for name, value in pairs) + "\r\n"
    return http.client.parse_headers(io.BytesIO(text.encode()))


def _message(pairs):
    message = Message()
    for name, value in pairs:
        message[name] = value
    return message


CARRIERS = {
    "dict": dict,
    "pairs": list,
    "iterator": iter,
    "raw": lambda pairs: [(n.encode(), v.encode()) for n, v in pairs],
    "httpx": httpx.Headers,
    "requests": requests.structures.CaseInsensitiveDict,
    "multidict": multidict.CIMultiDict,
    "multidict proxy": lambda pairs: multidict.CIMultiDictProxy(multidict.CIMultiDict(pairs)),
    "email": _message,
    "http.client": _http_client,
}


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS)
@pytest.mark.parametrize("value", ["45", "Mon, 16 Nov 2026 02:00:45 GMT", "45s"])
def test_headers_of_every_client_are_read(carrier, value):
    assert hint_seconds(carrier([("Retry-After", value), ("Date", DATE)])) == 45


@pytest.mark.parametrize("name", ["httpx", "multidict", "email", "http.client", "pairs"])
def test_of_a_header_that_stands_twice_the_larger_counts(name):
    headers = CARRIERS[name]([("Retry-After", "30"), ("Retry-After", "5")])
    assert hint_seconds(headers) == 30


def test_the_largest_of_all_hints_is_kept():
    headers = {"retry-after": "3", "retry-after-ms": "4000", "x-ratelimit-reset": "5"}
    assert hint_seconds(headers, {"retry_after": 6}) == 6
    assert hint_seconds(headers, {"retry_after": 1}) == 5
    assert hint_seconds(headers | {"retry-after": "-1"}, {"retry_after": "inf"}) == 5


def test_a_date_is_measured_against_the_responses_own_date():
    wrong_clock = NOW + timedelta(days=400)
    headers = {"Retry-After": "Mon, 16 Nov 2026 02:00:45 GMT", "Date": DATE}
    assert hint_seconds(headers, now=wrong_clock) == 45
    assert hint_seconds(headers | {"Date": "rubbish"}, now=NOW + timedelta(seconds=15)) == 30


def test_without_a_date_of_its_own_it_is_measured_against_now_or_not_at_all():
    headers = {"Retry-After": "Mon, 16 Nov 2026 02:00:45 GMT"}
    assert hint_seconds(headers, now=NOW) == 45
    assert hint_seconds(headers, now=NOW + timedelta(minutes=5)) is None
    assert hint_seconds(headers, now=NOW.replace(tzinfo=None)) is None
    assert hint_seconds(headers) is None
    assert hint_seconds({"Retry-After": str(EPOCH + 45)}) is None


def test_a_reset_is_a_hint_only_where_the_response_throttles():
    headers = {
        "x-ratelimit-reset": "30",
        "anthropic-ratelimit-tokens-reset": "2026-11-16T02:00:10Z",
    }
    headers |= {"ratelimit": "x;t=40", "date": DATE}
    assert hint_seconds(headers, throttled=True) == 40
    assert hint_seconds(headers, throttled=False) is None
    assert hint_seconds(headers | {"retry-after": "3"}, throttled=False) == 3
    assert hint_seconds(headers, {"retry_after": 4}, throttled=False) == 4


ABSURD = [
    "-1", "0", "0.0", "-0", "NaN", "nan", "inf", "-inf", "Infinity", "1e400", "1e999", "9" * 400, "9" * 5_000,
    "soon", "", " ", "\x00", "³", "٣٠", "1_000", "0x10", "--1", "1h-2m", "h", "ms", "1h" * 40,
    "1e", "30 seconds", "30;", "2026-13-45T99:99:99Z", "Mon, 99 Nov 2026 99:99:99 GMT", "Mon,,,", "()",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", DATE,
    -1, 0, math.nan, math.inf, -math.inf, 10**400, -(10**400), True, None, (), [], {}, object(),
]  # fmt: skip


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: ascii(value)[:20])
def test_an_absurd_value_is_no_hint(value):
    assert hint_seconds({"Retry-After": value, "Date": DATE}) is None
    assert hint_seconds({"retry-after-ms": value}) is None
    assert hint_seconds({"x-ratelimit-reset": value}) is None
    assert (
        hint_seconds(None, {"retry_after": value, "retryDelay": {"seconds": value, "nanos": value}})
        is None
    )
    assert hint_seconds({"Retry-After": value, "retry-after-ms": "2000"}) == 2


def test_absurd_json_is_no_hint():
    for text in (
        "[" * 50_000,
        '{"retry_after": 1e400}',
        '{"retry_after": NaN}',
        '{"retry_after": ' + "9" * 5_000 + "}",
    ):
        assert hint_seconds(None, text) is None
        assert hint_seconds(None, text.encode()) is None
    assert hint_seconds(None, b"\xff\xfe{") is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("12ms", 0.012), ("6m0s", 360), ("1d", 86_400), ("1.5h", 5_400), ("3µs", 3e-6), ("3μs", 3e-6), ("3us", 3e-6), ("9ns", 9e-9),
     (" 53s ", 53), ("53", None), ("", None), ("5 s", None), ("-5s", None), ("5s!", None), ("1h" * 40, None)],
)  # fmt: skip
def test_a_duration_is_read_whole_or_not_at_all(text, seconds):
    assert duration_seconds(text) == (seconds if seconds is None else pytest.approx(seconds))


# ---------------------------------------------------------------- rubbish


class Raising:
    """Whatever is done with it raises; pytest and Hypothesis may ask for its class."""

    def __getattribute__(self, name):
        if name != "__class__":
            raise ZeroDivisionError(name)
        return Raising

    def __bool__(self):
        raise ZeroDivisionError

    __iter__ = __len__ = __str__ = __repr__ = __eq__ = __bool__
    __hash__ = object.__hash__


class Liar(dict):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def items(self):
        return self.answer


class HostileText(str):
    __slots__ = ()

    def strip(self, *_):
        raise ZeroDivisionError

    lower = __str__ = __getitem__ = __len__ = strip


class HostileNumber(int):
    def __abs__(self):
        raise ZeroDivisionError

    __repr__ = __lt__ = __abs__


class Interrupted(dict):
    def items(self):
        yield "retry-after", "30"
        raise ZeroDivisionError


def _endless():
    while True:
        yield "retry-after-ms", "5"


HOSTILE = [
    Raising(), Raising, Liar(None), Liar(7), Liar([1, 2]), Liar([(1,)]), Liar([("a", "b", "c")]),
    Liar([(Raising(), Raising())]), Liar(Raising()), {"Retry-After": Raising()}, {Raising(): "5"},
    {"Retry-After": HostileNumber(5)}, {"Retry-After": [Raising()]}, 7, object(), "retry-after: 5", b"\x00",
    [None], [[]], lambda: None, {"retry_after": Raising()}, {"retryDelay": Raising()},
    {"retryDelay": Liar(None)}, {"a": [Raising()] * 10},
]  # fmt: skip


@pytest.mark.parametrize("which", range(len(HOSTILE)))
def test_a_hostile_object_gives_no_hint_and_does_no_harm(which):
    hostile = HOSTILE[which]
    assert hint_seconds(hostile, hostile) is None
    assert hint_seconds(hostile, {"retry_after": 5}) == 5
    assert hint_seconds({"Retry-After": "5"}, hostile) == 5


def test_what_was_read_before_it_broke_is_kept():
    assert hint_seconds(Interrupted()) == 30
    assert hint_seconds({HostileText("Retry-After"): HostileText("30")}) == 30
    assert hint_seconds(_endless()) == 0.005


def test_huge_and_circular_structures_are_read_in_part():
    circle = {"a": []}
    circle["a"].append(circle)
    assert hint_seconds(circle, circle) is None
    wide = [[{"x": [1] * 100}] * 1_000] * 1_000
    assert hint_seconds(wide, wide) is None
    deep = {"retry_after": 5}
    for _ in range(1_500):
        deep = {"a": deep}
    assert hint_seconds(None, deep) == 5
    assert (
        hint_seconds({"x" * 10**6: "y" * 10**6, "retry-after": "5"}, {"z" * 10**6: "y" * 10**6})
        == 5
    )


NAMES = st.sampled_from(
    ["retry-after", "Retry-After-Ms", "date", "x-ratelimit-reset", "RateLimit", "retry_after", "retryDelay", "seconds", "nanos"]
)  # fmt: skip
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30), st.binary(max_size=30),
    st.sampled_from(["5", "6m0s", DATE, "NaN", "1e400", "2026-11-16T02:00:45Z", 10**400]),
    st.builds(Raising),
    st.datetimes().map(lambda m: format_datetime(m.replace(tzinfo=UTC))),
    st.text("0123456789.eE+-smhd:TZ ", max_size=30),
)  # fmt: skip
keys = st.one_of(NAMES, st.text(max_size=8), st.binary(max_size=8), st.integers())
rubbish = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(keys, inner, max_size=5),
        st.lists(st.tuples(keys, inner), max_size=5),
        inner.map(Liar),
    ),
    max_leaves=15,
)


@settings(max_examples=300, deadline=None)
@given(rubbish, rubbish, st.booleans(), st.one_of(st.none(), st.just(NOW), st.datetimes()))
def test_rubbish_never_raises_and_a_hint_is_finite_and_above_zero(headers, body, throttled, now):
    found = hint_seconds(headers, body, throttled=throttled, now=now)
    assert found is None or (isinstance(found, float) and 0 < found <= 1e9)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_a_duration_or_not(text):
    found = duration_seconds(text)
    assert found is None or 0 <= found < math.inf
