"""The policies that ship: a careful default, and those of five real systems, figure by figure.

A preset is an ordinary `Policy`; take one by name, or as a pattern for your own. Where a figure
differs from the system it came from, its notes say so.
"""

from difflib import get_close_matches

from seawall.decisions.backoff import Backoff
from seawall.decisions.policy import Policy
from seawall.decisions.rule import Rule
from seawall.errors import UnknownPolicyError
from seawall.faults import FaultCode as F

_TRANSIENT = (
    F.RATE_LIMITED,
    F.TIMEOUT,
    F.UNAVAILABLE,
    F.UPSTREAM_ERROR,
    F.IO_ERROR,
    F.RESOURCE_EXHAUSTED,
    F.NOT_READY,
)

DEFAULT = Policy(
    name="default",
    description="What a careful person would choose: patient with upstreams, strict with bugs.",
    notes=(
        "RATE_LIMITED, NOT_READY and WORKER_LOST use up none of the 5 attempts: a throttled, "
        "waiting or orphaned job is not a failing one. Trouble of the upstream is met quickly at "
        "first and patiently later, for some minutes in all. A day bounds everything."
    ),
    max_attempts=5,
    max_elapsed_seconds=86_400,
    rules=(
        Rule(
            on=F.RATE_LIMITED,
            counts=False,
            backoff=Backoff(curve="exponential", base_seconds=5, cap_seconds=300, jitter="equal"),
        ),
        Rule(
            on=(F.TIMEOUT, F.UNAVAILABLE, F.UPSTREAM_ERROR, F.IO_ERROR),
            backoff=Backoff(
                curve="exponential", base_seconds=5, factor=4, cap_seconds=600, jitter="equal"
            ),
        ),
        Rule(
            on=F.NOT_READY,
            max_attempts=13,
            counts=False,
            backoff=Backoff(curve="exponential", base_seconds=30, cap_seconds=600, jitter="equal"),
        ),
        Rule(
            on=F.RESOURCE_EXHAUSTED,
            max_attempts=4,
            backoff=Backoff(curve="exponential", base_seconds=30, cap_seconds=600, jitter="equal"),
        ),
        Rule(on=F.INVALID_RESPONSE, max_attempts=2),
    ),
)

_REPORTS = Backoff(
    curve="schedule", schedule_seconds=(30, 120, 480), jitter="proportional", jitter_ratio=0.2
)
LLM_REPORTS = Policy(
    name="llm-reports",
    description="Reports through an LLM: 4 attempts, 30/120/480 s ±20 %.",
    notes=(
        "Output that is no JSON or breaks its schema is fatal here. A crashed worker is retried "
        "on the same schedule, with an allowance of its own."
    ),
    max_attempts=4,
    rules=(
        Rule(on=_TRANSIENT, backoff=_REPORTS),
        Rule(on=F.WORKER_LOST, max_attempts=4, counts=False, backoff=_REPORTS),
    ),
)

_DOUBLING = Backoff(curve="exponential", base_seconds=1, jitter="proportional", jitter_ratio=0.2)


def _ai_worker(name: str, max_attempts: int, description: str) -> Policy:
    return Policy(
        name=name,
        description=description,
        notes=(
            "Invalid model output is retried here, after a back-off and never at once. UNKNOWN "
            "and INTERNAL_ERROR get one controlled retry."
        ),
        max_attempts=max_attempts,
        rules=(
            Rule(on=(*_TRANSIENT, F.INVALID_RESPONSE), backoff=_DOUBLING),
            Rule(on=(F.UNKNOWN, F.INTERNAL_ERROR), max_attempts=2, backoff=_DOUBLING),
        ),
    )


AI_WORKER = _ai_worker(
    "ai-worker", 3, "AI calls in the background: 3 attempts, 1 s doubling, ±20 %."
)
AI_WORKER_COSTLY = _ai_worker(
    "ai-worker-costly", 2, "AI calls that cost real money: as ai-worker, with 2 attempts."
)
_SHORT = Backoff(
    curve="fixed", base_seconds=0.3, cap_seconds=0.8, jitter="additive", jitter_seconds=0.5
)
AI_SYNC = Policy(
    name="ai-sync",
    description="AI calls while a person waits: at most one retry, after 300–800 ms.",
    notes=(
        "RATE_LIMITED is never retried while somebody waits, and a Retry-After beyond 800 ms ends "
        "it too: both fail as exhausted or deadline, never as fatal, so that the caller may hand "
        "the job over to a worker."
    ),
    max_attempts=2,
    max_wait_seconds=0.8,
    rules=(
        Rule(on=F.RATE_LIMITED, max_attempts=1, backoff=_SHORT),
        Rule(on=F.WORKER_LOST, max_attempts=1, counts=False, backoff=_SHORT),
        Rule(on=(F.INVALID_RESPONSE, F.TIMEOUT, F.UNAVAILABLE, F.UPSTREAM_ERROR), backoff=_SHORT),
    ),
)

MEDIA_SYNC = Policy(
    name="media-sync",
    description="Metadata to a media server: 5 retries from 5 s, 12 while it is still scanning.",
    notes=(
        "Without jitter the 12 waits for NOT_READY add up to 5,130 s, an hour and 25 minutes; the "
        'design it comes from says "about two hours", which is loose. Equal jitter keeps them '
        "from ever being immediate. Register a classifier that turns the media server's 404 into "
        "NOT_READY."
    ),
    rules=(
        Rule(
            on=F.NOT_READY,
            max_attempts=13,
            backoff=Backoff(curve="exponential", base_seconds=30, cap_seconds=600, jitter="equal"),
        ),
        Rule(
            on=tuple(code for code in _TRANSIENT if code is not F.NOT_READY),
            max_attempts=6,
            backoff=Backoff(curve="exponential", base_seconds=5, cap_seconds=80, jitter="full"),
        ),
    ),
)

_CONVERTER = Backoff(curve="exponential", base_seconds=5, jitter="additive", jitter_seconds=5)
CONVERTER = Policy(
    name="converter",
    description="Files through a gateway: 3 attempts, 5 s doubling plus 0–5 s.",
    notes=(
        "No 4xx is retried, with one deliberate difference from its design: a 429 that says when "
        "to come back (Retry-After) is honoured. UNKNOWN is retried, a bug (INTERNAL_ERROR) not."
    ),
    max_attempts=3,
    rules=(
        Rule(on=F.RATE_LIMITED, needs_retry_after=True, backoff=_CONVERTER),
        Rule(on="4xx", retry=False),
        Rule(
            on=(
                F.UPSTREAM_ERROR,
                F.UNAVAILABLE,
                F.TIMEOUT,
                F.IO_ERROR,
                F.RESOURCE_EXHAUSTED,
                F.UNKNOWN,
            ),
            backoff=_CONVERTER,
        ),
    ),
)


def _sample_backoff(cap_seconds: float) -> Backoff:
    return Backoff(
        curve="exponential",
        base_seconds=1,
        cap_seconds=cap_seconds,
        jitter="proportional",
        jitter_ratio=0.25,
    )


_CAP_NOTE = "The cap holds after jitter; the design it comes from lets jitter exceed it by 25 %."
SAMPLE_STAGE = Policy(
    name="sample-stage",
    description="A stage of a sample pipeline: 3 attempts whatever happens, 1 s doubling, ±25 %.",
    notes=_CAP_NOTE,
    max_attempts=3,
    rules=(Rule(on="all", backoff=_sample_backoff(60)),),
)
SAMPLE_LLM = Policy(
    name="sample-llm",
    description="An LLM stage: as sample-stage, only for 429, 500, 502, 503, 504 and transport.",
    notes=_CAP_NOTE,
    max_attempts=3,
    rules=(
        Rule(on=F.QUOTA_EXHAUSTED, retry=False),
        Rule(on=(429, 500, 502, 503, 504, "transport"), backoff=_sample_backoff(30)),
    ),
)
SAMPLE_FILTER = Policy(
    name="sample-filter",
    description="A deterministic stage: one attempt, since another would end the same.",
    max_attempts=1,
    rules=(Rule(on="all"),),
)

_DELIVERIES = Backoff(
    curve="schedule",
    schedule_seconds=(5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800),
    jitter="proportional",
    jitter_ratio=0.2,
)
WEBHOOK = Policy(
    name="webhook",
    description="Deliveries to webhooks: 11 attempts, 5 s to 8 h apart, about a day in all.",
    notes=(
        "Whatever a receiver answers but yes is retried: it may be put right meanwhile. Only 410, "
        "gone, and an address that must not be called are final. Retry-After is honoured and uses "
        "up no attempt where it comes with a 429. Three days bound everything."
    ),
    max_attempts=11,
    max_elapsed_seconds=259_200,
    rules=(
        Rule(on=(410, F.INVALID_INPUT), retry=False),
        Rule(on=F.WORKER_LOST, max_attempts=20, counts=False),
        Rule(
            on=F.RATE_LIMITED,
            counts=False,
            backoff=Backoff(curve="exponential", base_seconds=30, cap_seconds=3_600),
        ),
        Rule(on="all", backoff=_DELIVERIES),
    ),
)

_PRESETS = {
    policy.name: policy
    for policy in (
        DEFAULT,
        LLM_REPORTS,
        AI_WORKER,
        AI_WORKER_COSTLY,
        AI_SYNC,
        MEDIA_SYNC,
        CONVERTER,
        SAMPLE_STAGE,
        SAMPLE_LLM,
        SAMPLE_FILTER,
        WEBHOOK,
    )
}


def names() -> tuple[str, ...]:
    """Every preset's name."""
    return tuple(_PRESETS)


def get(name: str) -> Policy:
    """The preset of that name."""
    return pick(name, _PRESETS)


def pick(name: str, policies: dict[str, Policy]) -> Policy:
    """The policy of that name among these, or an error that names the nearest."""
    if name in policies:
        return policies[name]
    near = get_close_matches(name, policies, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(policies)}"
    raise UnknownPolicyError(f"no policy named {name!r}; {hint}")
