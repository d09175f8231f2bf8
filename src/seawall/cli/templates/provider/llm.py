"""Calling the model: whoever speaks as OpenAI does at LLM_URL."""

import json
import os
import urllib.request
from typing import Any

from seawall import current_job


def ask(prompt: str) -> str:
    """What the model says; no try, no except, no sleep: failures are the policy's affair."""
    request = urllib.request.Request(
        os.environ.get("LLM_URL", "http://127.0.0.1:8765") + "/v1/chat/completions",
        data=json.dumps(
            {"model": "gpt-5", "messages": [{"role": "user", "content": prompt}]}
        ).encode(),
        headers={
            "Content-Type": "application/json",
            "Authorization": f"Bearer {os.environ.get('LLM_KEY', 'none')}",
            "Idempotency-Key": current_job().idempotency_key,  # the same for every attempt
        },
    )
    with urllib.request.urlopen(request, timeout=50) as response:
        answer: dict[str, Any] = json.load(response)
    used = answer["usage"]
    current_job().usage(tokens_in=used["prompt_tokens"], tokens_out=used["completion_tokens"])
    return str(answer["choices"][0]["message"]["content"])
