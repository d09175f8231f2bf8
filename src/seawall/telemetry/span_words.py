"""The names of spans and of what is said of them: docs/tracing.md lists them, and a test holds the
code to that list. They follow OpenTelemetry's conventions for messaging where those fit.

No attribute holds arguments, results, bodies or secrets; a message is the fault's redacted line.
"""

from enum import StrEnum
from typing import NamedTuple, Self


class SpanWord(NamedTuple):
    """A kind of span."""

    name: str
    """Its first word; what follows tells it from others of its kind."""
    subject: str
    kind: str
    meaning: str


ENQUEUE = SpanWord(
    "enqueue",
    "TASK",
    "producer",
    "A job was asked for: alone, from a handler, by a schedule, over HTTP, or to be called now.",
)
ENQUEUE_MANY = SpanWord(
    "enqueue many",
    "",
    "producer",
    "Many jobs were asked for at once: by `enqueue_many`, or as the items of a run.",
)
PROCESS = SpanWord(
    "process",
    "TASK",
    "consumer",
    "One attempt. It belongs to the span that asked for the job, and is linked to that one and to"
    " the attempt before.",
)
STAGE = SpanWord(
    "stage", "STAGE", "internal", "The stage of a pipeline that the attempt was made at."
)
CALL = SpanWord(
    "call",
    "UPSTREAM",
    "client",
    "A call at an upstream: the block of `with upstream(…):`, or the handler as a whole where its"
    " task names the upstream and it marks no calls there.",
)
HAND_OVER = SpanWord(
    "hand over",
    "TASK",
    "internal",
    "Whoever called now waits no longer: workers go on with the job, in the same trace.",
)
SPANS = (ENQUEUE, ENQUEUE_MANY, PROCESS, STAGE, CALL, HAND_OVER)


class Attr(StrEnum):
    """An attribute, and which spans have it."""

    def __new__(cls, name: str, spans: tuple[SpanWord, ...], meaning: str) -> Self:
        made = str.__new__(cls, name)
        made._value_ = name
        made.spans = spans
        made.meaning = meaning
        return made

    spans: tuple[SpanWord, ...]
    meaning: str

    SYSTEM = "messaging.system", (ENQUEUE, ENQUEUE_MANY, PROCESS), "`seawall`."
    OPERATION = (
        "messaging.operation.name",
        (ENQUEUE, ENQUEUE_MANY, PROCESS),
        "`enqueue` or `process`.",
    )
    OPERATION_TYPE = (
        "messaging.operation.type",
        (ENQUEUE, ENQUEUE_MANY, PROCESS),
        "`send` or `process`.",
    )
    QUEUE = (
        "messaging.destination.name",
        (ENQUEUE, PROCESS),
        "The queue.",
    )
    MESSAGE = (
        "messaging.message.id",
        (ENQUEUE, PROCESS),
        "The job's id, as text. What a handler asks for has none yet when it is asked for.",
    )
    BATCH = "messaging.batch.message_count", (ENQUEUE_MANY,), "How many jobs were asked for."
    JOB = "seawall.job.id", (ENQUEUE, PROCESS, STAGE, CALL, HAND_OVER), "The job's id."
    TASK = "seawall.task", (ENQUEUE, PROCESS, STAGE, CALL, HAND_OVER), "The task's name."
    RUN = "seawall.run.id", (ENQUEUE_MANY, PROCESS), "The run that the job is an item of."
    STAGE_NUMBER = "seawall.stage", (PROCESS, STAGE, HAND_OVER), "The stage's number, from 0."
    STAGE_NAME = "seawall.stage.name", (PROCESS, STAGE), "What the stage is called."
    ATTEMPT = (
        "seawall.attempt",
        (PROCESS, HAND_OVER),
        "Which of the policy's tries this is, from 1; with a hand-over, how many its caller made.",
    )
    MAX_ATTEMPTS = "seawall.attempt.max", (PROCESS,), "How many the policy allows in all."
    SEQ = "seawall.attempt.seq", (PROCESS,), "The attempt's number in the job's whole history."
    CYCLE = "seawall.cycle", (PROCESS,), "How often the job was sent again by a person."
    INLINE = "seawall.inline", (PROCESS,), "True where whoever asked for the job runs it."
    OUTCOME = (
        "seawall.outcome",
        (PROCESS, STAGE, CALL),
        "What the attempt came to, as history has it; `lost` where another has the job by now.",
    )
    COUNTS = "seawall.counts", (PROCESS,), "Whether it used up a try."
    DELAY = (
        "seawall.delay_seconds",
        (PROCESS, HAND_OVER),
        "How long the job waits from now on.",
    )
    POLICY = "seawall.policy", (PROCESS,), "Name and version of the policy that judged a fault."
    FAULT = "seawall.fault.code", (PROCESS, STAGE, CALL), "What went wrong, by its canonical code."
    FINGERPRINT = "seawall.fault.fingerprint", (PROCESS,), "What faults alike have in common."
    ERROR = (
        "error.type",
        (ENQUEUE, ENQUEUE_MANY, PROCESS, STAGE, CALL),
        "The fault's code, or the class of what was raised where nobody has judged it.",
    )
    STATUS = "http.response.status_code", (PROCESS, CALL), "The upstream's, with a fault."
    UPSTREAM = "seawall.upstream", (PROCESS, CALL), "What is called."
    PEER = "peer.service", (CALL,), "The same, under the name that service maps know."
    BREAKER = (
        "seawall.breaker.state",
        (PROCESS, CALL),
        "`closed`, `open` or `half_open`: the upstream's breaker when this began.",
    )
    REQUEST = "seawall.request.id", (ENQUEUE, PROCESS), "The caller's own request id."
    UPSTREAM_REQUEST = (
        "seawall.upstream.request.id",
        (PROCESS, CALL),
        "The upstream's own request id, with a fault.",
    )
    REASON = "seawall.reason", (HAND_OVER,), "Why there is no further attempt at once."
