"""Stages: what can be said about one, and how functions become the stages of a pipeline.

A function that keeps nothing (`checkpoint=False`) is a part of the stage after it. Nothing here
knows of jobs or runs; `pipelines` puts stages together.
"""

import asyncio
import hashlib
import inspect
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

from seawall.arguments import Call
from seawall.errors import ConfigurationError, FaultError
from seawall.faults import FaultCode
from seawall.items import unreadable
from seawall.redact import one_line
from seawall.tasks import Task, UpstreamOf

if TYPE_CHECKING:
    from seawall.app import Seawall
    from seawall.decisions.policy import Policy

F = TypeVar("F", bound=Callable[..., Any])

ITEM = "item"
"""The parameter of a later stage that gets what the first one was given."""
MOST_STAGES = 100
_SAID = "_seawall_stage"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOptions:
    """What can be said about a stage. What is None is as the application has it."""

    name: str | None = None
    policy: "str | Policy | None" = None
    upstream: UpstreamOf = ""
    timeout_seconds: float | None = None
    isolated: bool = False
    memory_mib: int | None = None
    checkpoint: bool = True
    """False for a cheap step whose output is not worth keeping: it is part of the stage after it,
    and done again with it."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What else its outcome depends on, such as a model or a prompt's version."""


AS_IT_IS = StageOptions()
_APART = StageOptions(checkpoint=False)


@overload
def stage(function: F, /) -> F: ...
@overload
def stage(
    *,
    name: str | None = None,
    policy: "str | Policy | None" = None,
    upstream: UpstreamOf = "",
    timeout_seconds: float | None = None,
    isolated: bool = False,
    memory_mib: int | None = None,
    checkpoint: bool = True,
    config: Mapping[str, Any] | None = None,
) -> Callable[[F], F]: ...
def stage(*function: Any, **said: Any) -> Any:
    """Say how a function is to be treated as a stage of pipelines; it stays what it is.

    `policy` judges its faults; `upstream` is what it calls, or a function of its arguments;
    `checkpoint=False` makes it a part of the stage after it. `config` is whatever else its
    outcome depends on: attempts say which configuration they were made with.
    """
    if function:
        return _marked(function[0], AS_IT_IS)
    if said.get("config", ()) is None:
        del said["config"]
    try:
        options = StageOptions(**said)
    except TypeError:
        there = ", ".join(StageOptions.__dataclass_fields__)
        unknown = next(name for name in said if name not in StageOptions.__dataclass_fields__)
        raise ConfigurationError(f"stage: no option {unknown!r}; there are: {there}") from None
    return lambda function: _marked(function, options)


def _marked(function: F, options: StageOptions) -> F:
    given: object = function
    if not callable(given) or isinstance(given, Task):
        raise ConfigurationError(f"stage: found {function!r:.80}, expected a function")
    setattr(function, _SAID, options)
    return function


class Stage(Task[..., Any, Any]):
    """One stage of a pipeline."""

    first: bool = True
    alone: bool = True
    """Whether the pipeline's first stage takes one thing: that is its item, without a name."""

    def call_of(self, arguments: str, before: str | None) -> Call:
        if self.first:
            if (reason := unreadable(arguments)) is not None:
                raise FaultError(FaultCode.INVALID_INPUT, f"it is no item: {reason}")
            return self.signature.read(arguments)
        takes = [name for name, _ in self.signature.parameters]
        parts = [
            f"{json.dumps(name)}:{self._item(arguments) if name == ITEM else before or 'null'}"
            for name in takes
        ]
        return self.signature.read(f"{{{','.join(parts)}}}")

    def _item(self, arguments: str) -> str:
        """What the first stage was given, by itself where it takes one thing only."""
        table = json.loads(arguments)
        given = next(iter(table.values())) if self.alone and table else table
        return json.dumps(given, ensure_ascii=False)


def stages_of(app: "Seawall", pipeline: str, given: Sequence[Any], home: str) -> list[Stage]:
    """The stages, with those that keep nothing as parts of the ones after them."""
    if not isinstance(given, list | tuple) or not given:
        raise ConfigurationError(
            f"pipeline {pipeline}: found {given!r:.80}, expected a list of stages"
        )
    if len(given) > MOST_STAGES:
        raise ConfigurationError(
            f"pipeline {pipeline}: {len(given)} stages, expected at most {MOST_STAGES}"
        )
    stages: list[Stage] = []
    steps: list[Callable[..., Any]] = []
    for each in given:
        options, function = _options(app, pipeline, each)
        if not options.checkpoint:
            _need_nothing_else(pipeline, function, options)
            steps.append(function)
            continue
        stages.append(_stage(app, pipeline, [*steps, function], options, first=not stages))
        steps = []
    if steps:
        raise ConfigurationError(
            f"pipeline {pipeline}: the last stage keeps its output: checkpoint=False is for one"
            " that another follows"
        )
    names = [stage.name for stage in stages]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(
            f"pipeline {pipeline}: two stages are called {twice}; give one another name:"
            " @stage(name=…)"
        )
    for stage in stages:
        stage.home = home
        stage.alone = len(stages[0].signature.parameters) == 1
    return stages


def _options(app: "Seawall", pipeline: str, given: Any) -> tuple[StageOptions, Callable[..., Any]]:
    if isinstance(given, Task):
        if given.stages != (given,):
            raise ConfigurationError(
                f"pipeline {pipeline}: {given.name} is a pipeline, not a stage"
            )
        if given.app is not app:
            raise ConfigurationError(
                f"pipeline {pipeline}: {given.name} is a task of another application"
            )
        return StageOptions(
            name=given.name,
            policy=given.policy,
            upstream=given.upstream,
            timeout_seconds=given.timeout_seconds,
            isolated=given.isolated,
            memory_mib=given.memory_mib,
        ), given.function
    if not callable(given):
        raise ConfigurationError(
            f"pipeline {pipeline}: found {given!r:.80}, expected a task or a function"
        )
    return getattr(given, _SAID, AS_IT_IS), given


def _need_nothing_else(pipeline: str, function: Any, options: StageOptions) -> None:
    for name in StageOptions.__dataclass_fields__:
        if name not in ("name", "config", "checkpoint") and getattr(options, name) != getattr(
            _APART, name
        ):
            raise ConfigurationError(
                f"pipeline {pipeline}: {_name(function)}: checkpoint=False makes it a part of the"
                f" stage after it, whose {name} holds; say it there"
            )


def _name(function: Any) -> str:
    options: StageOptions = getattr(function, _SAID, AS_IT_IS)
    return options.name or getattr(function, "__name__", "") or "a stage"


def _stage(
    app: "Seawall",
    pipeline: str,
    functions: list[Callable[..., Any]],
    options: StageOptions,
    *,
    first: bool,
) -> Stage:
    last = options.name or _name(functions[-1])
    name = "+".join([*map(_name, functions[:-1]), last])
    for function in functions[0 if not first else 1 :]:
        _need_one_parameter(pipeline, function)
    try:
        policy = app.policy(options.policy)
    except ConfigurationError as error:
        raise ConfigurationError(f"pipeline {pipeline}: {name}: {error}") from None
    timeout = options.timeout_seconds
    stage = Stage(
        app,
        functions[0] if len(functions) == 1 else _joined(functions, first=first),
        name=name,
        policy=policy,
        queue="default",
        upstream=options.upstream,
        priority=0,
        timeout_seconds=app.settings.timeout_seconds if timeout is None else timeout,
        isolated=options.isolated,
        memory_mib=options.memory_mib,
    )
    stage.first = first
    stage.config = _digest(stage, [getattr(each, _SAID, AS_IT_IS).config for each in functions])
    return stage


def _need_one_parameter(pipeline: str, function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function)
    except ValueError:
        raise ConfigurationError(
            f"pipeline {pipeline}: {_name(function)} does not say what it takes; write a function"
            " around it"
        ) from None
    takes = [each for each in inspect.signature(function).parameters.values() if each.name != ITEM]
    good = len(takes) <= 1 and all(
        each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        for each in takes
    )
    if not good:
        raise ConfigurationError(
            f"pipeline {pipeline}: {_name(function)} takes"
            f" {one_line(str(inspect.signature(function)))}; a later stage takes what the one"
            f" before it left, and `{ITEM}` if it likes"
        )


def _joined(functions: list[Callable[..., Any]], *, first: bool) -> Callable[..., Any]:
    """One function of several, each of which takes what the one before it gave.

    It takes what the first of them does, and behind an earlier stage also the item, where any of
    them asks for that.
    """
    head = inspect.signature(functions[0])
    asking = [each for each in functions if ITEM in inspect.signature(each).parameters]
    added = bool(asking) and not first and functions[0] not in asking

    def given(function: Callable[..., Any], value: Any, item: Any) -> dict[str, Any]:
        return {
            name: item if name == ITEM else value for name in inspect.signature(function).parameters
        }

    def taken(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """What the first function takes, and the item."""
        if not first:
            item = kwargs.get(ITEM)
            return {name: kwargs[name] for name in kwargs if name != ITEM or not added}, item
        table = head.bind(*args, **kwargs).arguments
        alone = len(head.parameters) == 1 and table
        return kwargs, next(iter(table.values())) if alone else dict(table)

    def joined(*args: Any, **kwargs: Any) -> Any:
        kwargs, item = taken(args, kwargs)
        value = functions[0](*args, **kwargs)
        for function in functions[1:]:
            value = function(**given(function, value, item))
        return value

    async def joined_async(*args: Any, **kwargs: Any) -> Any:
        kwargs, item = taken(args, kwargs)
        value = await _awaited(functions[0], *args, **kwargs)
        for function in functions[1:]:
            value = await _awaited(function, **given(function, value, item))
        return value

    any_async = any(map(inspect.iscoroutinefunction, functions))
    made: Any = joined_async if any_async else joined
    made.__wrapped__ = functions[0]
    made.__module__ = functions[-1].__module__
    made.__name__ = functions[-1].__name__
    hints = dict(getattr(functions[0], "__annotations__", {}))
    hints.pop("return", None)
    if added:
        more = inspect.Parameter(
            ITEM, inspect.Parameter.KEYWORD_ONLY, annotation=_type_of_item(asking[0])
        )
        made.__signature__ = head.replace(parameters=[*head.parameters.values(), more])
        hints[ITEM] = more.annotation
    made.__annotations__ = hints
    return made  # type: ignore[no-any-return]


def _type_of_item(function: Callable[..., Any]) -> Any:
    try:
        return typing.get_type_hints(function).get(ITEM, Any)
    except Exception:  # noqa: BLE001 - a name that cannot be looked up here guards nothing
        return Any


async def _awaited(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


def _digest(stage: Stage, configs: list[Mapping[str, Any]]) -> str:
    """What the stage's configuration is known by; the same words give the same digest."""
    upstream = stage.upstream if isinstance(stage.upstream, str) else stage.upstream.__qualname__
    said = {
        "name": stage.name,
        "policy": stage.policy.id,
        "upstream": upstream,
        "timeout_seconds": stage.timeout_seconds,
        "isolated": stage.isolated,
        "memory_mib": stage.memory_mib,
        "config": [dict(config) for config in configs],
    }
    text = json.dumps(said, sort_keys=True, default=repr)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
