"""Who else retries underneath us.

Four attempts over a client that itself retries twice are twelve requests. This looks at a client
object, imports nothing, and says how many retries it makes of its own accord and how to turn them
off. None means: none, or not a client that is known here.
"""

from dataclasses import dataclass

from seawall.decisions.facts import attribute
from seawall.decisions.matching import class_name

BOTOCORE_ATTEMPTS = {"legacy": 5, "standard": 3, "adaptive": 3}
GENAI_AIOHTTP_RETRIES = 1


@dataclass(frozen=True, slots=True)
class HiddenRetries:
    """Retries that a client makes by itself, and how to stop it."""

    client: str
    count: int
    advice: str

    def __str__(self) -> str:
        return (
            f"{self.client} retries {self.count}× by itself: each attempt is up to "
            f"{self.count + 1} requests; {self.advice}"
        )


def hidden_retries(client: object) -> HiddenRetries | None:
    """The retries that this client object makes by itself, or None."""
    name = class_name(type(client))
    package = name.partition(".")[0]
    if package in ("openai", "anthropic"):
        count, advice = attribute(client, "max_retries"), "create it with max_retries=0"
    elif package == "botocore":
        count = _botocore(client)
        advice = 'create it with Config(retries={"total_max_attempts": 1})'
    elif package == "google":
        count = _genai(client)
        advice = "create it with HttpOptions(retry_options=HttpRetryOptions(attempts=1))"
    elif package == "requests":
        count = _requests(client)
        advice = "mount an HTTPAdapter(max_retries=0)"
    else:
        return None
    known = isinstance(count, int) and not isinstance(count, bool) and count > 0
    return HiddenRetries(name, count, advice) if known else None


def _botocore(client: object) -> int | None:
    if attribute(client, "meta") is None:
        return None
    retries = attribute(client, "meta", "config", "retries")
    total = attribute(retries, "total_max_attempts")
    if isinstance(total, int):
        return total - 1
    return BOTOCORE_ATTEMPTS.get(attribute(retries, "mode") or "legacy", 1) - 1


def _genai(client: object) -> int | None:
    options = attribute(client, "_api_client", "_http_options")
    if options is None:
        return None
    attempts = attribute(options, "retry_options", "attempts")
    return attempts - 1 if isinstance(attempts, int) else GENAI_AIOHTTP_RETRIES


def _requests(session: object) -> int | None:
    adapters = attribute(session, "adapters")
    totals = [
        attribute(adapter, "max_retries", "total")
        for adapter in (adapters.values() if isinstance(adapters, dict) else ())
    ]
    return max((total for total in totals if isinstance(total, int)), default=None)
