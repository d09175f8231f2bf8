"""What the gateway is asked, what it answers, and how it says that it cannot."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

AIErrorCode = Literal[
    "RATE_LIMITED",
    "INVALID_UPSTREAM_RESPONSE",
    "TIMEOUT",
    "UPSTREAM_UNAVAILABLE",
    "UPSTREAM_ERROR",
    "CONFIG_MISSING",
    "INVALID_REQUEST",
    "INTERNAL_ERROR",
    "UNKNOWN",
]


class Ask(BaseModel):
    """A text that is to be judged."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=20_000)
    provider: Literal["openai", "anthropic"] = "openai"
    costly: bool = False
    """By the large model, which is tried less often."""


class Judgement(BaseModel):
    """What a model has to answer; anything else is INVALID_UPSTREAM_RESPONSE."""

    model_config = ConfigDict(extra="forbid")

    mood: Literal["good", "neutral", "bad"]
    confidence: float = Field(ge=0, le=1)
    reason: str


class AIErrorResponse(BaseModel):
    """Why there is no judgement: the body of every answer that is an error."""

    title: str
    """One line, and nothing that an upstream said."""
    status: int
    code: AIErrorCode
    retryable: bool
    """Whether it makes sense to ask again."""
    retryAfterMs: int | None = None  # noqa: N815 - what callers read
    """Not before then; only where the upstream said so."""
    job: int | None = None
    """Where its history is kept."""
