"""What of a log event may be written: secrets are cut out, and the application has its say.

An application's hook is called with the fields of every event before it becomes a record, and
answers those that may be written: changed, fewer, or more. Events belong to no application, so a
hook holds for the whole process. Where one breaks, the event is written all the same, with its text
withheld: a log that fell silent would hide more than it protects.
"""

import threading
from collections.abc import Callable, Mapping
from enum import Enum

from seawall.redact import public_name, without_secrets

Fields = dict[str, object]
LogHook = Callable[[Fields], Mapping[str, object]]

PROSE = frozenset({"advice", "endpoint", "message", "newest", "reason", "traceback", "where"})
"""Fields that hold words of others; the rest are names and ids."""
_OURS = frozenset({"event", "trace_id", "span_id"})
"""Fields that hold nothing of anybody's."""
_hooks: list[LogHook] = []
_inside = threading.local()


def add(hook: LogHook) -> LogHook:
    """Have every event go through the function before it is written."""
    _hooks.append(hook)
    return hook


def remove(hook: LogHook) -> None:
    """Have it called no more."""
    if hook in _hooks:
        _hooks.remove(hook)


def cleaned(fields: Fields) -> Fields:
    """The fields without what can be recognised as a secret."""
    return {name: _cleaned(name, value) for name, value in fields.items()}


def _cleaned(name: str, value: object) -> object:
    if type(value) is tuple:
        return tuple([_cleaned(name, each) for each in value])
    if type(value) is not str:
        return value
    if name in PROSE:
        return without_secrets(value)
    return public_name(value)


def passed(fields: Fields) -> Fields:
    """What the application's hooks leave of an event's fields, one after the other."""
    if not _hooks:
        return fields
    if getattr(_inside, "now", False):  # a hook that logs is not asked about its own words
        return _withheld(fields, "said inside a log hook")
    _inside.now = True
    try:
        for hook in tuple(_hooks):
            fields = _passed(hook, fields)
    finally:
        _inside.now = False
    return fields


def _passed(hook: LogHook, fields: Fields) -> Fields:
    try:
        found: object = hook(dict(fields))
        if not isinstance(found, Mapping) or not all(type(name) is str for name in found):
            raise TypeError(f"it answered {type(found).__name__}")  # noqa: TRY301 - as if it had
        return {"event": "", **found} | {"event": fields["event"]}
    except BaseException as error:  # noqa: BLE001 - the worker is not the hook's to end
        name = getattr(hook, "__qualname__", type(hook).__name__)
        # Its message may quote what was to be hidden.
        return _withheld(fields, f"the log hook {name} broke: {type(error).__name__}")


def _withheld(fields: Fields, why: str) -> Fields:
    """The event without words: numbers, and what is one of a few known words, are kept."""
    return {
        name: f"(withheld: {why})" if name not in _OURS and _is_text(value) else value
        for name, value in fields.items()
    }


def _is_text(value: object) -> bool:
    return not (value is None or isinstance(value, bool | int | float | Enum))
