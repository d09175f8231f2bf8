"""The real clients of two providers behind one function.

Neither retries by itself (`max_retries=0`): that is the policies' affair. Keys and addresses are
the clients' own settings, `OPENAI_API_KEY`, `ANTHROPIC_BASE_URL` and their kin; a missing key is
what the client says it is.
"""

import json
import os

import anthropic
import openai

from examples.ai_gateway.schema import Ask, Judgement

CALL_SECONDS = float(os.environ.get("GATEWAY_CALL_SECONDS", "20"))
MODELS = {
    ("openai", False): "gpt-5-mini",
    ("openai", True): "gpt-5",
    ("anthropic", False): "claude-haiku-4-5",
    ("anthropic", True): "claude-opus-4-5",
}
PROMPT = "Judge the mood of this text. Answer in JSON.\n\n"


async def said_by_model(ask: Ask, headers: dict[str, str]) -> tuple[str, int, int]:
    """What the model of that provider says, and the tokens that went in and out."""
    model, prompt = MODELS[ask.provider, ask.costly], PROMPT + ask.text
    if ask.provider == "openai":
        return await _openai(model, prompt, headers)
    return await _anthropic(model, prompt, headers)


async def _openai(model: str, prompt: str, headers: dict[str, str]) -> tuple[str, int, int]:
    async with openai.AsyncOpenAI(max_retries=0, timeout=CALL_SECONDS) as client:
        answer = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "judgement", "schema": Judgement.model_json_schema()},
            },
            extra_headers=headers,
        )
    used = answer.usage
    tokens = (used.prompt_tokens, used.completion_tokens) if used else (0, 0)
    return answer.choices[0].message.content or "", *tokens


async def _anthropic(model: str, prompt: str, headers: dict[str, str]) -> tuple[str, int, int]:
    async with anthropic.AsyncAnthropic(max_retries=0, timeout=CALL_SECONDS) as client:
        answer = await client.messages.create(
            model=model,
            max_tokens=500,
            messages=[{"role": "user", "content": prompt}],
            tools=[{"name": "judgement", "input_schema": Judgement.model_json_schema()}],
            tool_choice={"type": "tool", "name": "judgement"},
            extra_headers=headers,
        )
    text = "".join(block.text for block in answer.content if block.type == "text")
    judged = (json.dumps(block.input) for block in answer.content if block.type == "tool_use")
    return next(judged, text), answer.usage.input_tokens, answer.usage.output_tokens
