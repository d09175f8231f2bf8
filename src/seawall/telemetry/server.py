"""What the server is asked over HTTP."""

import logging
from dataclasses import dataclass
from typing import ClassVar

from seawall.telemetry.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStarted(Event):
    name: ClassVar[str] = "server_started"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The server listens; auth says who may use it: tokens, or anybody."

    host: str
    port: int
    auth: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStopping(Event):
    name: ClassVar[str] = "server_stopping"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The server takes no more requests and lets those under way finish."

    grace_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStopped(Event):
    name: ClassVar[str] = "server_stopped"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The server has answered everything and is gone."


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent(Event):
    """The fields that every event about a request has; its path is told as the route has it."""

    method: str
    route: str
    status: int
    duration_ms: int
    token: str | None = None
    """The public part of the access token."""
    owner: str | None = None
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestServed(RequestEvent):
    name: ClassVar[str] = "request_served"
    level: ClassVar[int] = logging.DEBUG
    meaning: ClassVar[str] = "The server answered somebody who looked."


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChanged(RequestEvent):
    name: ClassVar[str] = "request_changed"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The server did what somebody asked for: a job, a retry, a hold."


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(RequestEvent):
    name: ClassVar[str] = "request_refused"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = "The server refused a request, or could not answer it just now."


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBroke(RequestEvent):
    name: ClassVar[str] = "request_broke"
    level: ClassVar[int] = logging.ERROR
    meaning: ClassVar[str] = "A bug: answering a request raised something; where is the line."

    message: str
    where: str
