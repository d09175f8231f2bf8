"""Every metric that there is, as data: docs/metrics.md lists these, and tests hold it to them."""

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What Prometheus takes it for."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric: its name as it is asked for, what it tells, and by what."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


_PLACE = ("task", "queue")
_COUNTERS = (
    Metric("seawall_jobs_created_total", Kind.COUNTER, "Jobs that were asked for.", _PLACE),
    Metric(
        "seawall_jobs_redriven_total", Kind.COUNTER, "Failed jobs that were sent again.", _PLACE
    ),
    Metric(
        "seawall_jobs_completed_total",
        Kind.COUNTER,
        "Jobs that ended, by the state they ended in; one that was sent again may end twice.",
        (*_PLACE, "state"),
    ),
    Metric(
        "seawall_jobs_failed_total",
        Kind.COUNTER,
        "Jobs that failed for good, by the code of their fault.",
        (*_PLACE, "code"),
    ),
    Metric(
        "seawall_attempts_total",
        Kind.COUNTER,
        "Attempts that ended, by their outcome; those of lost workers are among them.",
        (*_PLACE, "outcome"),
    ),
    Metric(
        "seawall_attempt_faults_total",
        Kind.COUNTER,
        "Attempts that ended with a fault, by its code, whether they were retried or not.",
        (*_PLACE, "code"),
    ),
    Metric(
        "seawall_retries_scheduled_total",
        Kind.COUNTER,
        "Attempts after which a retry was scheduled, by the code of the fault.",
        (*_PLACE, "code"),
    ),
    Metric(
        "seawall_schema_failures_total",
        Kind.COUNTER,
        "Attempts whose upstream answered what cannot be used (INVALID_RESPONSE).",
        _PLACE,
    ),
    Metric("seawall_raw_captures_total", Kind.COUNTER, "Raw outputs that were kept.", _PLACE),
    Metric(
        "seawall_tokens_total",
        Kind.COUNTER,
        "Tokens that handlers reported: `in` or `out`.",
        (*_PLACE, "direction"),
    ),
    Metric(
        "seawall_spend_total",
        Kind.COUNTER,
        "Cost that handlers reported, in whatever currency they report it.",
        _PLACE,
    ),
)
_TIMES = (
    Metric(
        "seawall_attempt_duration_seconds",
        Kind.HISTOGRAM,
        "How long attempts took.",
        _PLACE,
    ),
    Metric(
        "seawall_time_to_success_seconds",
        Kind.HISTOGRAM,
        "From a job's creation to its success, waits and retries included.",
        _PLACE,
    ),
)
_QUEUES = (
    Metric(
        "seawall_queue_depth",
        Kind.GAUGE,
        "Jobs of a queue that are `due`, wait for `later`, or are `running`.",
        ("queue", "state"),
    ),
    Metric(
        "seawall_oldest_due_age_seconds",
        Kind.GAUGE,
        "For how long the oldest due job of a queue has been due; 0 where none is.",
        ("queue",),
    ),
    Metric(
        "seawall_held_jobs",
        Kind.GAUGE,
        "Due jobs that wait because their queue, task, upstream or run is held.",
        ("queue",),
    ),
    Metric("seawall_holds", Kind.GAUGE, "Holds in force, by what they are on.", ("scope",)),
    Metric(
        "seawall_dead_letters_open",
        Kind.GAUGE,
        "Dead letters that nobody has dealt with.",
        (*_PLACE, "code"),
    ),
)
_UPSTREAMS = (
    Metric(
        "seawall_upstream_held",
        Kind.GAUGE,
        "1 while none of the upstream's jobs begins, by its breaker or by hand; otherwise 0.",
        ("upstream",),
    ),
    Metric("seawall_upstream_waiting_jobs", Kind.GAUGE, "Due jobs of the upstream.", ("upstream",)),
    Metric("seawall_upstream_calls_total", Kind.COUNTER, "Calls that ended.", ("upstream",)),
    Metric(
        "seawall_upstream_failures_total",
        Kind.COUNTER,
        "Calls whose end speaks against the upstream's health.",
        ("upstream",),
    ),
    Metric(
        "seawall_upstream_denied_total",
        Kind.COUNTER,
        "Calls that were not accepted: credentials, permissions, configuration.",
        ("upstream",),
    ),
    Metric(
        "seawall_upstream_call_duration_seconds",
        Kind.HISTOGRAM,
        "How long calls took.",
        ("upstream",),
    ),
    Metric(
        "seawall_upstream_open_seconds_total",
        Kind.COUNTER,
        "For how long the upstream was shut, by its breaker or by hand.",
        ("upstream",),
    ),
)
_FLEET = (
    Metric("seawall_workers", Kind.GAUGE, "Workers that are alive."),
    Metric("seawall_worker_slots", Kind.GAUGE, "Jobs that living workers can run at once."),
    Metric("seawall_worker_slots_busy", Kind.GAUGE, "Slots in which a job runs."),
    Metric(
        "seawall_build_info",
        Kind.GAUGE,
        "Always 1; its labels say which version answers.",
        ("version", "python"),
    ),
)

METRICS: tuple[Metric, ...] = (*_COUNTERS, *_TIMES, *_QUEUES, *_UPSTREAMS, *_FLEET)
