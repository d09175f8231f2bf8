"""Runs and their reports, as the API gives them."""

from datetime import datetime

from pydantic import BaseModel

from seawall.web.models import FaultShown, Shown


class TermsShown(Shown):
    failure_budget: float | None
    minimum: int
    complete_at: float
    partial_at: float
    spending_cap: float | None


class StageShown(Shown):
    name: str
    waiting: int
    later: int
    running: int
    done: int
    skipped: int
    failed: int
    cancelled: int
    retried: int
    tokens_in: int
    tokens_out: int
    cost: float


class RunShown(Shown):
    id: int
    pipeline: str
    name: str
    round: int
    status: str
    reason: str
    terms: TermsShown
    owner: str | None
    sealed: bool
    created_at: datetime
    closed_at: datetime | None
    stages: list[StageShown]
    entered: int
    succeeded: int
    skipped: int
    failed: int
    cancelled: int
    pruned: int
    unfinished: int
    success_rate: float | None
    cost: float
    over: bool


class SpansShown(Shown):
    p50: float | None
    p95: float | None
    p99: float | None
    longest: float | None


class ConfigShown(Shown):
    config: str
    attempts: int
    first_at: datetime
    last_at: datetime


class StageReportShown(Shown):
    name: str
    attempts: int
    done: int
    retried: int
    failed: int
    lost: int
    took: SpansShown
    tries: dict[int, int]
    configs: list[ConfigShown]
    tokens_in: int
    tokens_out: int
    cost: float
    reliability: float | None
    changed: bool


class TroubleShown(Shown):
    stage: str
    code: str
    fingerprint: str
    attempts: int
    items: int
    message: str
    job_id: int


class FailedShown(Shown):
    job_id: int
    key: str | None
    stage: str
    attempts: int
    fault: FaultShown
    finished_at: datetime


class ReportShown(Shown):
    run: RunShown
    stages: list[StageReportShown]
    troubles: list[TroubleShown]
    more_troubles: int
    to_success: SpansShown
    failed: list[FailedShown]
    more_failed: int
    attempts: int


class RunChanged(BaseModel):
    run: int
    status: str
    cancelled: int | None = None
