"""What goes in, what must come out, and what is left of it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Metadata(BaseModel):
    """What must be known of a document."""

    title: str = Field(min_length=1)
    author: str = Field(min_length=1)
    pages: int = Field(ge=1)


class Document(BaseModel):
    """A document that can be reported on."""

    metadata: Metadata
    text: str


class Report(BaseModel):
    """What the model has to answer; anything else breaks the schema."""

    model_config = ConfigDict(extra="forbid")

    title: str
    summary: str
    findings: list[str]
    risk: Literal["low", "medium", "high"]


class Written(BaseModel):
    """A report that lies where it belongs."""

    path: str
    title: str
    risk: str
