"""The tasks behind the gateway, and what may be logged of them.

    seawall worker --app examples.ai_gateway.app:app

A call is made while its caller waits, under `ai-sync`; what does not end well by then is handed
over to the workers, under `ai-worker`. Each provider is an upstream of its own: one that is away,
or says when to come back, is held without the other.
"""

from collections.abc import Mapping

from examples.ai_gateway.providers import said_by_model
from examples.ai_gateway.schema import Ask, Judgement
from seawall import AI_CODES, FaultCode, Seawall, current_job, parse_output

app = Seawall()


async def judge(ask: Ask) -> Judgement:
    """What the model thinks of it."""
    job = current_job()
    headers = {"Idempotency-Key": job.idempotency_key, "X-Request-Id": job.request_id or ""}
    text, tokens_in, tokens_out = await said_by_model(ask, headers)
    job.usage(tokens_in=tokens_in, tokens_out=tokens_out)
    return parse_output(text, Judgement)  # what it said is kept with the attempt, never logged


def provider(ask: Ask) -> str:
    """The upstream that it is asked of."""
    return ask.provider


answer = app.task(policy="ai-worker", upstream=provider)(judge)
costly = app.task(policy="ai-worker-costly", upstream=provider, name="judge_costly")(judge)


@app.on_log
def in_our_codes(fields: dict[str, object]) -> Mapping[str, object]:
    """Say what went wrong by the gateway's own code, and nothing in an upstream's words."""
    if fields.get("task") in app.tasks and "fault_code" in fields:
        fields["ai_code"] = AI_CODES.codes[FaultCode(str(fields["fault_code"]))]
        fields.pop("message", None)
    return fields
