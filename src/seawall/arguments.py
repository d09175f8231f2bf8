"""What a task takes and gives, checked against its function's types and kept as JSON.

Arguments are checked where they are given, so that a mistake is the caller's at once and not a
dead letter's a day later; they are read back by the same types before the handler is called. Types
are whatever pydantic knows: plain values, dataclasses, models, dates, paths, enums. What has no
type may be anything that JSON can hold. NaN and infinities are refused: JSON has none.
"""

import copy
import dataclasses
import inspect
import json
import math
import operator
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from types import UnionType
from typing import Annotated, Any, NotRequired, Required, get_args

from seawall.errors import ArgumentsError, ConfigurationError
from seawall.redact import one_line

CODEC = "json"
_MOST_PROBLEMS = 3
_WRAPPED = '{"value":'
_DEEPEST = 100
_PLAIN = frozenset({str, int, bool, type(None)})
"""What has neither order nor NaN."""
_READ_AS_WRITTEN = frozenset({*_PLAIN, float, Any})
"""Types by which a plain value that was checked is read back as it was written."""
_SURELY_READ = 4_000
"""No number in a text that is shorter has more digits than can be read."""
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


class Signature:
    """A function's parameters and result, as the types that guard them.

    The types are looked at when they are first needed: pydantic is not imported with `seawall`.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function
        self._signature = inspect.signature(function)
        self._parameters = list(self._signature.parameters.items())
        self._by_name = all(p.kind in _BY_NAME for _, p in self._parameters)

    @property
    def parameters(self) -> list[tuple[str, inspect.Parameter]]:
        """What the function takes, in order."""
        return self._parameters

    def prepare(self) -> None:
        """Look at the types now, so that the first job does not have to wait for it."""
        with suppress(ConfigurationError):  # whoever gives or takes arguments will be told
            _ = self._takes, self._gives

    def write(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The arguments as JSON; `ArgumentsError` where the function does not take them."""
        given = kwargs if self._by_name and not args else self._bound(args, kwargs)
        try:
            table = self._takes.check(given)
            plain = _PLAIN.issuperset(map(type, table.values()))
            text = self._takes.write(table if plain else _ordered(table))
            if not plain:
                refuse_nan(text, given)
            if not (plain and self._is_plain and len(text) < _SURELY_READ):
                self._takes.read(text)  # what cannot be read back is better known now
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            self._bound(args, kwargs)  # what does not even fit the signature is told so
            raise ArgumentsError(f"{self._name}: {problems(error)}") from None
        return text

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """What each parameter gets; `ArgumentsError` where that is not what the function takes."""
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise ArgumentsError(f"{self._name}: {error}; it takes {self._signature}") from None

    def need_names(self, table: dict[str, Any]) -> None:
        """`ArgumentsError`, as from `write`, where these are not the names that it takes."""
        if self._by_name:
            self._bound((), table)

    def read(self, text: str) -> Call:
        """The arguments of a call, from what `write` made; `ValueError` where they do not fit."""
        table: dict[str, Any] = self._takes.read(text)
        if self._by_name:
            return (), table
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        before: dict[str, Any] = {}
        for name, parameter in self._parameters:
            given = name in table
            value = table[name] if given else parameter.default
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                if given and value:  # what stands before these can then be given by place only
                    args, kwargs = [*args, *before.values(), *value], {}
            elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                if given:
                    args.append(value)
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                kwargs.update(value if given else {})
            else:
                before[name] = value
                if given:
                    kwargs[name] = value
        return tuple(args), kwargs

    def write_result(self, value: object) -> str | None:
        """What the function returned, as JSON; `TypeError` or `ValueError` where it is none.

        It is not held to its type: what a call has paid for is kept, whatever its shape.
        """
        if value is None:
            return None
        text = self._gives.write({"value": value})
        refuse_nan(text, value)
        return text[len(_WRAPPED) : -1]

    def read_result(self, text: str | None) -> Any:
        """What `write_result` made, in the function's own type."""
        return None if text is None else self._gives.read(f"{_WRAPPED}{text}}}")["value"]

    @cached_property
    def _is_plain(self) -> bool:
        """Whether its parameters are of plain types, or of one or another of them."""
        hints = (self._hints.get(name, Any) for name, _ in self._parameters)
        parts = (get_args(hint) if isinstance(hint, UnionType) else (hint,) for hint in hints)
        return self._by_name and _READ_AS_WRITTEN.issuperset(chain.from_iterable(parts))

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(_inner(self._function), include_extras=True)
        except Exception as error:  # noqa: BLE001 - an annotation in quotes may be any code
            raise ConfigurationError(
                f"{self._name}: its types cannot be looked up: {one_line(str(error))};"
                " name types that the module defines, not the function around it"
            ) from None

    @cached_property
    def _gives(self) -> "_Codec":
        """A table around the value, which lends its configuration to types that have none."""
        return _Codec(self._name, {"value": self._hints.get("return", Any)})

    @cached_property
    def _takes(self) -> "_Codec":
        """A table with a field for each parameter, in order, whatever its name."""
        from pydantic import Field  # noqa: PLC0415 - as above

        fields: dict[str, Any] = {}
        for name, parameter in self._parameters:
            hint = self._hints.get(name, Any)
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                hint = list[hint]  # type: ignore[valid-type]
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                hint = dict[str, hint]  # type: ignore[valid-type]
            optional = parameter.kind in _VARIADIC or parameter.default is not parameter.empty
            needed: Any = NotRequired if optional else Required
            # The parameter's own name, whatever alias its annotation has.
            fields[name] = needed[Annotated[hint, Field(alias=name)]]
        return _Codec(self._name, fields)


class _Codec:
    """A table of typed fields and its JSON: by pydantic's own core, since every job needs it."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        from pydantic import PydanticUserError, TypeAdapter  # noqa: PLC0415 - as above
        from pydantic_core import CoreConfig, SchemaSerializer, SchemaValidator  # noqa: PLC0415
        from typing_extensions import TypedDict  # noqa: PLC0415 - pydantic wants it before 3.12

        # Of NaN, constants: so that they are seen and refused, not turned into null.
        config = CoreConfig(
            ser_json_inf_nan="constants", ser_json_bytes="base64", val_json_bytes="base64"
        )
        made: Any = TypedDict
        table = made(name, fields)
        table.__pydantic_config__ = {**config, "extra": "forbid"}
        try:
            schema = TypeAdapter(table).core_schema
        except PydanticUserError as error:
            raise ConfigurationError(
                f"{name}: has a type that cannot be kept as JSON: {one_line(str(error))}"
            ) from None
        validator = SchemaValidator(schema, config)
        self.check: Callable[[object], Any] = validator.validate_python
        self.read: Callable[[str], Any] = validator.validate_json
        self._write = SchemaSerializer(schema, config).to_json

    def write(self, value: object) -> str:
        """The value as JSON; it is not held to its type."""
        return self._write(value, by_alias=True, round_trip=True, warnings=False).decode()


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose annotations hold, beneath what has some arguments filled in."""
    while isinstance(function, partial):
        function = function.func
    return function


def problems(error: Exception) -> str:
    """What is wrong with a value and where, in one line, without quoting the value."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return one_line(str(error))
    found = errors(include_input=False, include_url=False, include_context=False)
    said = [f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}" for one in found]
    rest = f"; and {len(said) - _MOST_PROBLEMS} more" if len(said) > _MOST_PROBLEMS else ""
    return one_line("; ".join(said[:_MOST_PROBLEMS]) + rest)


def _ordered(value: Any, depth: int = 0) -> Any:
    """The value with its sets as lists: a set has no order, and equal ones must be equal text.

    The very same value where there is no set in it.
    """
    if isinstance(value, str | int | float | bytes) or value is None or depth > _DEEPEST:
        return value
    if isinstance(value, set | frozenset):
        return sorted((_ordered(each, depth + 1) for each in value), key=repr)
    if isinstance(value, list | tuple):
        parts = [_ordered(each, depth + 1) for each in value]
        return value if all(map(operator.is_, parts, value)) else parts
    if isinstance(value, dict):
        table = {key: _ordered(each, depth + 1) for key, each in value.items()}
        return value if all(table[key] is value[key] for key in value) else table
    return _ordered_fields(value, depth) if _has_fields(value) else value


def _has_fields(value: object) -> bool:
    """Whether it is a model or a dataclass: nothing else is looked into."""
    return hasattr(type(value), "model_fields") or dataclasses.is_dataclass(type(value))


def _ordered_fields(value: Any, depth: int) -> Any:
    """A copy of a model or dataclass with its sets in order; itself where it has none."""
    changed = {
        name: ordered
        for name, each in _fields(value).items()
        if (ordered := _ordered(each, depth + 1)) is not each
    }
    if not changed:
        return value
    made = copy.copy(value)
    for name, ordered in changed.items():
        object.__setattr__(made, name, ordered)  # past what a frozen one would say
    return made


def _fields(value: Any) -> dict[str, Any]:
    if hasattr(value, "__dict__"):
        return dict(vars(value))
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def refuse_nan(text: str, value: object) -> None:
    """`ValueError` where a number that JSON does not have is in the value.

    Some types write such a number as null, so where there is a null the value itself is looked at.
    """
    if "NaN" in text or "Infinity" in text:
        json.loads(text, parse_constant=_refuse)
    if "null" in text:
        _look_for_nan(value, 0)


def _look_for_nan(value: object, depth: int) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            _refuse(str(value))
    elif isinstance(value, str | bytes | int) or value is None or depth > _DEEPEST:
        return
    elif isinstance(value, Mapping):
        for each in value.values():
            _look_for_nan(each, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            _look_for_nan(each, depth + 1)
    elif _has_fields(value):
        _look_for_nan(_fields(value), depth + 1)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} cannot be kept: JSON has no such number")
