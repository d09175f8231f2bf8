"""Arguments and results: every type that people use goes through JSON and comes back as it was."""

import dataclasses
import math
import string
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_validator
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from seawall import ArgumentsError, ConfigurationError
from seawall.arguments import Signature

SECRET = "hunter2-Zq"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"


@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclass(frozen=True)
class Blob:
    content: bytes
    made: datetime


class Pair(NamedTuple):
    left: int
    right: str


class Options(TypedDict, total=False):
    pages: int
    colour: Colour


class Report(BaseModel):
    title: str
    at: datetime
    parts: list["Report"] = []
    id: UUID = Field(default_factory=uuid4)
    score: float | None = None


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    width: int
    height: int

    @computed_field
    def area(self) -> int:
        return self.width * self.height


class Renamed(BaseModel):
    path: str = Field(alias="filePath")


class Picky(BaseModel):
    password: str

    @field_validator("password")
    @classmethod
    def long_enough(cls, value: str) -> str:
        if len(value) < 100:
            raise ValueError("too short")
        return value


def round_trip(function, *args, **kwargs):
    """What the handler is called with, when this was asked for."""
    signature = Signature(function.__name__, function)
    return signature.read(signature.write(args, kwargs))


def value_back(hint, value):
    def task(it): ...

    task.__annotations__ = {"it": hint}
    _, kwargs = round_trip(task, value)
    return kwargs["it"]


def refusal(function, *args, **kwargs):
    """The one line with which a call is refused."""
    with pytest.raises(ArgumentsError) as refused:
        Signature(function.__name__, function).write(args, kwargs)
    line = str(refused.value)
    assert "\n" not in line
    assert line.startswith(f"{function.__name__}: ")
    assert isinstance(refused.value, TypeError)
    assert refused.value.__cause__ is None
    return line


# ── Every type ───────────────────────────────────────────────────────────────────────────────────

NOON = datetime(2026, 3, 29, 12, 0, 0, 123_456, tzinfo=UTC)
ID = UUID("12345678-1234-5678-1234-567812345678")
VALUES = [
    (int, 7), (int, -(2**63)), (int, 10**30), (str, 'ällmänn \u2028\n\t"\\ 🦜'), (str, ""), (str, "\0"),
    (float, 0.1), (float, -0.0), (float, 1e308), (float, 5e-324), (bool, True), (bool, False), (None, None),
    (int | None, 3), (int | None, None), (int | str, "7"), (int | str, 7),
    (Literal["a", "b", 3], "b"), (Literal["a", "b", 3], 3), (Colour, Colour.BLUE), (Level, Level.HIGH), (Word, Word.YES),
    (datetime, NOON), (datetime, NOON.replace(tzinfo=None)), (date, date(2026, 2, 28)), (time, time(23, 59, 59)),
    (timedelta, timedelta(days=3, microseconds=7)), (UUID, ID), (Path, Path("/srv/a b/ü.pdf")),
    (Decimal, Decimal("0.10")), (Decimal, Decimal("1e-30")), (bytes, b"\xff\x00abc?>~"), (bytes, b""),
    (list[int], [3, 1, 2]), (list[list[str]], [["a"], [], ["b", "c"]]), (dict[str, int], {"a": 1, "": 2}),
    (dict[int, str], {1: "a", -2: "b"}), (dict[UUID, Colour], {ID: Colour.RED}), (dict[Level, int], {Level.LOW: 1}),
    (tuple[int, str], (1, "a")), (tuple[int, ...], (1, 2, 3)), (tuple[int, ...], ()), (set[int], {3, 1, 2}),
    (frozenset[str], frozenset({"a", "b"})), (dict[str, list[tuple[int, set[str]]]], {"k": [(1, {"x"})]}),
    (list[bytes], [b"\xff", b"abcd"]), (dict[str, bytes], {"k": b"\xff\xfe"}), (list, [1, "a", None]), (dict, {"a": [1.5]}),
    (Point, Point(1.5, 2.5, ["t"])), (Point, Point(1.0)), (list[Point], [Point(1.0), Point(2.0)]),
    (Blob, Blob(b"\xff\x00", NOON)), (Pair, Pair(1, "r")), (Options, {"pages": 2, "colour": Colour.RED}), (Options, {}),
    (Report, Report(title="t", at=NOON, parts=[Report(title="p", at=NOON)])), (Renamed, Renamed(filePath="a.pdf")),
    (Strict, Strict(width=2, height=3)), (Any, {"a": [1, None, "x", {"b": 2.5}]}), (Any, None),
    (Annotated[int, Field(ge=0, le=9)], 9), (Point | Report, Report(title="t", at=NOON)),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "value"), VALUES)
def test_a_value_comes_back_as_it_was(hint, value):
    back = value_back(hint, value)
    assert back == value
    assert type(back) is type(value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_whatever_json_can_hold_comes_back_as_it_was(value):
    assert value_back(Any, value) == value


HINTS = st.recursive(
    st.sampled_from([
        (int, st.integers(-(10**30), 10**30)), (str, st.text()), (bool, st.booleans()),
        (float, st.floats(allow_nan=False, allow_infinity=False)), (bytes, st.binary()),
        (datetime, st.datetimes(timezones=st.just(UTC))), (date, st.dates()), (UUID, st.uuids()),
        (Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=5)),
        (Colour, st.sampled_from(Colour)), (timedelta, st.timedeltas()),
    ]),
    lambda inner: st.one_of(
        inner.map(lambda it: (list[it[0]], st.lists(it[1], max_size=3))),
        inner.map(lambda it: (dict[str, it[0]], st.dictionaries(st.text(), it[1], max_size=3))),
        inner.map(lambda it: (it[0] | None, st.none() | it[1])),
        inner.map(lambda it: (tuple[it[0], int], st.tuples(it[1], st.integers()))),
    ),
    max_leaves=3,
)  # fmt: skip


@given(st.data())
def test_a_value_of_any_nested_type_comes_back_as_it_was(data):
    hint, values = data.draw(HINTS)
    value = data.draw(values)
    assert value_back(hint, value) == value


# ── Every kind of parameter ──────────────────────────────────────────────────────────────────────


def mixed(a, b: int, /, c: str, d: float = 2.5, *rest: int, e: bool, f: str = "f", **more: Path):
    return a, b, c, d, rest, e, f, more


@pytest.mark.parametrize(("args", "kwargs"), [
    ((1, 2, "c"), {"e": True}),
    ((1, 2), {"c": "c", "e": False}),
    ((1, 2, "c", 3.5), {"e": True, "f": "g"}),
    ((1, 2, "c", 3.5, 4, 5), {"e": True}),
    (([None], 2, "c"), {"e": True, "x": Path("x"), "y": Path("y")}),
    ((1, 2), {"e": True, "d": 0.5, "c": "c", "a": Path("a")}),
    ((1, 2, "c", 3.5, 4), {"e": True, "more": Path("m"), "rest": Path("r"), "b": Path("b")}),
])  # fmt: skip
def test_a_call_arrives_as_it_was_made(args, kwargs):
    back_args, back_kwargs = round_trip(mixed, *args, **kwargs)
    assert mixed(*back_args, **back_kwargs) == mixed(*args, **kwargs)


@given(
    st.lists(st.integers(), min_size=0, max_size=4),
    st.dictionaries(st.text(string.ascii_letters + "_", min_size=1), st.integers(), max_size=4),
)
def test_any_number_of_arguments_of_any_name_arrives(args, kwargs):
    def anything(*args: int, **kwargs: int): ...

    assert round_trip(anything, *args, **kwargs) == (tuple(args), kwargs)


def clashing(  # noqa: PLR0917
    self: int, cls: int, model_config: str, model_fields: int, model_dump: int, json: str,
    copy: int, _private: str, __dunder__: int, schema: int, p0: str, p1: int, validate: bool, class_: str = "c",
):  # fmt: skip
    """Names that pydantic keeps for itself, that begin with an underscore, or that are ours."""


def test_no_name_of_a_parameter_clashes():
    given = {
        "self": 1, "cls": 2, "model_config": "m", "model_fields": 3, "model_dump": 4, "json": "j",
        "copy": 5, "_private": "p", "__dunder__": 6, "schema": 7, "p0": "zero", "p1": 8, "validate": True,
    }  # fmt: skip
    assert round_trip(clashing, **given) == ((), given)


def test_what_was_not_given_is_left_to_the_functions_own_default():
    def task(a: int, b: list[int] = [1, 2], *, c: str = "c"): ...  # noqa: B006

    assert round_trip(task, 1) == ((), {"a": 1})
    assert Signature("task", task).write((1,), {}) == '{"a":1}'


def test_a_default_need_not_be_of_the_parameters_type():
    sentinel = object()

    def task(a: int = sentinel): ...

    assert round_trip(task) == ((), {})


def test_a_function_without_parameters_takes_nothing():
    def task(): ...

    assert round_trip(task) == ((), {})
    assert "takes" in refusal(task, 1)


def test_what_has_no_type_may_be_anything_that_json_can_hold():
    def task(a, b=None, *c, **d): ...

    assert round_trip(task, {"x": [1]}, None, "c", d=[2]) == (
        ({"x": [1]}, None, "c"),
        {"d": [2]},
    )


def test_text_of_numbers_becomes_numbers_where_numbers_are_wanted():
    """As from a command line."""
    assert value_back(int, "7") == 7
    assert value_back(Path, "a.pdf") == Path("a.pdf")
    assert value_back(Colour, "red") is Colour.RED


def test_arguments_that_are_equal_are_the_same_text_however_they_were_given():
    def task(a: int, b: int = 2, *, c: str = ""): ...

    write = Signature("task", task).write
    assert write((1, 2), {"c": "x"}) == write((), {"c": "x", "b": 2, "a": 1})


@pytest.mark.parametrize(("hint", "one", "other"), [
    (set[int], [0, 8, 16], [16, 8, 0]), (frozenset[int], [0, 8], [8, 0]),
])  # fmt: skip
def test_equal_sets_are_the_same_text(hint, one, other):
    """A key is taken by a job with the same arguments, not by one with others."""

    def task(it): ...

    task.__annotations__ = {"it": hint}
    one, other = set(one), set(other)
    assert one == other
    assert list(one) != list(other)
    write = Signature("task", task).write
    assert write((one,), {}) == write((other,), {})


@dataclass
class Bag:
    numbers: set[int]


class Sack(BaseModel):
    bags: dict[str, frozenset[int]]


@pytest.mark.parametrize(("hint", "made"), [
    (Bag, Bag), (list[Bag], lambda it: [Bag(it)]), (Sack, lambda it: Sack(bags={"a": frozenset(it)})), (Any, lambda it: it),
    (Any, lambda it: {"a": [it]}), (dict[str, set[int]], lambda it: {"a": it}), (Bag | None, Bag),
])  # fmt: skip
def test_equal_sets_are_the_same_text_wherever_they_are(hint, made):
    def task(it): ...

    task.__annotations__ = {"it": hint}
    write = Signature("task", task).write
    assert write((made({0, 8}),), {}) == write((made({8, 0}),), {})


# ── What models leave to themselves ──────────────────────────────────────────────────────────────


def test_what_a_model_made_up_for_itself_is_kept():
    """Every attempt must see the same id, not one made up anew."""

    def task(report: Report, reports: list[Report]): ...

    one, two = Report(title="a", at=NOON), Report(title="b", at=NOON)
    assert round_trip(task, one, [two]) == ((), {"report": one, "reports": [two]})


def test_what_a_model_leaves_to_its_default_is_kept():
    class Box(BaseModel):
        size: int = 1

    def task(box): ...

    task.__annotations__ = {"box": Box}
    assert Signature("task", task).write((Box(),), {}) == '{"box":{"size":1}}'


# ── Refused ──────────────────────────────────────────────────────────────────────────────────────


class Holder(BaseModel):
    number: float = 0.0
    anything: Any = None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("hint", "deep"), [
    (float, lambda n: n), (Any, lambda n: n), (float | None, lambda n: n), (list[float], lambda n: [1.0, n]),
    (dict[str, float], lambda n: {"a": n}), (Any, lambda n: {"a": [{"b": n}]}), (tuple[int, float], lambda n: (1, n)),
    (Point, Point), (list[Point], lambda n: [Point(1.0, n)]), (Holder, lambda n: Holder(number=n)),
    (list[Holder], lambda n: [Holder(anything={"x": [n]})]), (Any, lambda n: Holder(number=n)), (Any, lambda n: [Point(n)]),
    (Report, lambda n: Report(title="t", at=NOON, score=n)),
])  # fmt: skip
def test_numbers_that_json_does_not_have_are_refused_at_any_depth(hint, deep, number):
    def task(it): ...

    task.__annotations__ = {"it": hint}
    assert refusal(task, deep(number))


@pytest.mark.parametrize("text", ["NaN", "Infinity", '"NaN"', "-Infinity", "[NaN]"])
def test_words_that_look_like_such_numbers_are_words(text):
    assert value_back(str, text) == text
    assert value_back(Any, {text: [text]}) == {text: [text]}


def typed(  # noqa: PLR0917
    number: int = 0, when: datetime | None = None, colour: Colour = Colour.RED, ids: list[UUID] = [],  # noqa: B006
    word: Literal["a", "b"] = "a", picky: Picky | None = None, point: Point | None = None, text: str = "",
    table: dict[str, int] = {}, blob: bytes = b"",  # noqa: B006
):  # fmt: skip
    """One parameter of each kind that can be wrong."""


@pytest.mark.parametrize(("wrong", "place"), [
    ({"number": SECRET}, "number"), ({"number": [SECRET]}, "number"), ({"number": 1.5}, "number"),
    ({"when": SECRET}, "when"), ({"colour": SECRET}, "colour"), ({"ids": [SECRET]}, "ids.0"), ({"ids": SECRET}, "ids"),
    ({"word": SECRET}, "word"), ({"picky": {"password": SECRET}}, "picky.password"), ({"picky": {"pass": SECRET}}, "picky"),
    ({"point": {"x": SECRET}}, "point.x"), ({"point": SECRET}, "point"), ({"text": 5}, "text"), ({"text": [SECRET]}, "text"),
    ({"text": None}, "text"), ({"table": {"a": SECRET}}, "table.a"), ({"blob": 5}, "blob"), ({"text": object()}, "text"),
])  # fmt: skip
def test_a_wrong_value_is_refused_by_the_name_of_its_place_and_not_quoted(wrong, place):
    line = refusal(typed, **wrong)
    assert place in line
    assert SECRET not in line
    assert len(line) < 400


def test_many_wrong_values_are_refused_with_the_first_few():
    line = refusal(typed, ids=[SECRET] * 50)
    assert "ids.0" in line
    assert "and 47 more" in line
    assert SECRET not in line


@pytest.mark.parametrize(("args", "kwargs", "told"), [
    ((), {}, "missing a required argument: 'path'"),
    (("a", 1, 2), {}, "too many positional arguments"),
    (("a",), {"pagse": 2}, "unexpected keyword argument 'pagse'"),
    (("a",), {"path": "b"}, "multiple values for argument 'path'"),
])  # fmt: skip
def test_arguments_that_the_function_does_not_have_are_refused_with_what_it_takes(
    args, kwargs, told
):
    def task(path: str, pages: int = 1): ...

    line = refusal(task, *args, **kwargs)
    assert told in line
    assert "path: str" in line


class Unkeepable:
    pass


@pytest.mark.parametrize(
    "value", [Unkeepable(), lambda: None, [Unkeepable()], {"a": Unkeepable()}, "\ud800", {"\udfff": 1}, ["a\ud800"]]
)  # fmt: skip
def test_what_json_cannot_hold_is_refused_where_nothing_says_its_type(value):
    def task(it): ...

    assert refusal(task, value)


def test_what_contains_itself_is_refused():
    def task(it): ...

    endless = []
    endless.append(endless)
    assert refusal(task, endless)


def test_a_number_too_long_to_be_read_back_is_refused_when_it_is_given():
    def task(it: int, other: Any = None): ...

    assert refusal(task, 10**5_000)
    assert refusal(task, 1, 10**5_000)


def test_a_type_that_pydantic_does_not_know_is_a_mistake_of_the_task():
    def task(it: Unkeepable): ...

    with pytest.raises(ConfigurationError) as refused:
        Signature("task", task).write((Unkeepable(),), {})
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("task: has a type that cannot be kept as JSON")


def test_a_type_that_only_the_function_around_it_knows_is_a_mistake_of_the_task():
    class Local(BaseModel):
        a: int

    def task(it: "Local"): ...

    with pytest.raises(
        ConfigurationError, match=r"its types cannot be looked up: .*Local"
    ) as refused:
        Signature("task", task).write((Local(a=1),), {})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("hint", ["datetime.Nothing", "list[", "Nowhere.At.All", "1 +"])
def test_a_type_that_cannot_be_looked_up_is_a_mistake_of_the_task(hint):
    def task(it): ...

    task.__annotations__ = {"it": hint}
    with pytest.raises(ConfigurationError, match=r"^task: its types cannot be looked up"):
        Signature("task", task).write((1,), {})


# ── Reading back ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", [
    "{}", '{"path":1}', '{"path":"a","pages":"x"}', '{"path":"a","gone":1}', "[]", "null", "", "{", '{"path":null}',
])  # fmt: skip
def test_what_no_longer_fits_the_function_is_a_value_error(text):
    def task(path: str, pages: int = 1): ...

    with pytest.raises(ValueError):
        Signature("task", task).read(text)


def test_a_parameter_that_was_added_with_a_default_does_not_disturb_what_waits():
    def older(path: str): ...
    def newer(path: str, pages: int = 1): ...

    text = Signature("task", older).write(("a",), {})
    assert Signature("task", newer).read(text) == ((), {"path": "a"})


def test_a_parameter_that_was_added_before_the_variable_ones_does_not_take_their_values():
    def older(path: str, *rest: int): ...
    def newer(path: str, pages: int = 1, *rest: int):
        return path, pages, rest

    text = Signature("task", older).write(("a", 5, 6), {})
    try:
        args, kwargs = Signature("task", newer).read(text)
    except ValueError:
        return  # to refuse it is honest too
    assert newer(*args, **kwargs) == ("a", 1, (5, 6))


# ── Results ──────────────────────────────────────────────────────────────────────────────────────


def result_back(hint, value):
    def task(): ...

    task.__annotations__ = {"return": hint}
    signature = Signature("task", task)
    return signature.read_result(signature.write_result(value))


@pytest.mark.parametrize(("hint", "value"), VALUES)
def test_a_result_comes_back_as_it_was(hint, value):
    if value == "\0":
        value = "a"  # the store refuses NUL only where it stands unescaped
    back = result_back(hint, value)
    assert back == value
    assert type(back) is type(value)


@given(st.data())
def test_a_result_of_any_nested_type_comes_back_as_it_was(data):
    hint, values = data.draw(HINTS)
    value = data.draw(values)
    assert result_back(hint, value) == value


def test_a_result_without_a_type_is_what_json_makes_of_it():
    def task(): ...

    signature = Signature("task", task)
    assert signature.read_result(signature.write_result({"a": (1, 2), "b": NOON})) == {
        "a": [1, 2],
        "b": "2026-03-29T12:00:00.123456Z",
    }


def test_a_result_is_kept_though_it_is_not_of_the_type_that_was_promised():
    """The call is paid for."""

    def task() -> int: ...

    assert Signature("task", task).write_result({"a": "not a number"}) == '{"a":"not a number"}'


@pytest.mark.parametrize("value", [
    math.nan, [math.inf], {"a": -math.inf}, Point(math.nan), Holder(number=math.nan), [Holder(anything=math.inf)],
    Unkeepable(), {"a": Unkeepable()}, "\ud800", {1: {2: Unkeepable()}},
])  # fmt: skip
def test_a_result_that_no_json_can_hold_is_refused(value):
    def task(): ...

    with pytest.raises((ValueError, TypeError)):
        Signature("task", task).write_result(value)


@dataclass(frozen=True, slots=True)
class Narrow:
    numbers: frozenset[int]
    x: float = 0.0


def narrow(it: Narrow, other: int | None = None) -> None: ...


def test_a_dataclass_with_slots_is_looked_into_as_well():
    signature = Signature("narrow", narrow)
    texts = {
        signature.write((Narrow(frozenset(numbers)),), {})
        for numbers in ((0, 8), (8, 0), (8, 0, 8))
    }
    assert texts == {'{"it":{"numbers":[0,8],"x":0.0}}'}
    with pytest.raises(ArgumentsError, match="NaN"):
        signature.write((Narrow(frozenset(), float("nan")),), {"other": None})


class Ring:
    """Not a model: whatever hangs on it is not looked into, however large."""

    def __init__(self):
        self.others = [self] * 50


def test_an_object_that_is_no_model_is_not_searched():
    def anything(it: Any, other: int | None = None) -> None: ...

    with pytest.raises(ArgumentsError, match="Ring"):
        Signature("anything", anything).write((Ring(),), {"other": None})
