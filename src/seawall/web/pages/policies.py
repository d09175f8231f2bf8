"""Policies on pages: which there are, who goes by them, what each waits, what it would decide.

For everybody who is signed in: a policy is rules and figures, and knows no secret.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from seawall.app import Seawall
from seawall.decisions.explain import (
    MOST_ROWS,
    Explanation,
    Wait,
    explain,
    limits_in_words,
    remarks,
    rule_name,
    schedule,
    window_in_words,
)
from seawall.decisions.policy import Policy, Retry
from seawall.decisions.readers import code_of_status
from seawall.decisions.rule import MOST_ATTEMPTS, Rule
from seawall.faults import LONGEST_WAIT_SECONDS, Fault, FaultCode
from seawall.web.house import house_of
from seawall.web.pages.people import Viewer
from seawall.web.pages.pictures import Delay, delays
from seawall.web.pages.site import page
from seawall.web.problems import ProblemError

router = APIRouter(include_in_schema=False)

MOST_USERS = 50
ASKED = ("fault", "status", "attempt", "retry_after")
LONGEST_FIELD = 40


@dataclass(slots=True)
class Known:
    """A policy, where it comes from, and who goes by it."""

    policy: Policy
    source: str
    users: list[str] = field(default_factory=list)
    named: bool = True
    """Whether its name alone leads to it: another one may have the same."""

    @property
    def path(self) -> str:
        """Where its page is."""
        version = "" if self.named else f"?version={self.policy.version}"
        return f"/policies/{self.policy.name}{version}"


def known_policies(app: Seawall) -> list[Known]:
    """Every policy that has a name here or that a task was given, those in use first."""
    found = {each.id: Known(each, source) for each, source in app.policies.values()}
    for task in app.tasks.values():
        for stage in task.stages:
            policy = stage.policy
            known = found.setdefault(policy.id, Known(policy, "own", named=False))
            many = len(task.stages) > 1
            known.users.append(f"{task.name}, {stage.name}" if many else task.name)
    names = {each.policy.name for each in found.values() if each.named}
    for each in found.values():
        each.named = each.named or each.policy.name not in names
    return sorted(found.values(), key=lambda each: (not each.users, each.policy.name))


@router.get("/policies")
async def show_policies(request: Request, visitor: Viewer) -> Response:
    """Every policy, and which tasks go by it."""
    house = house_of(request)
    return await page(
        request,
        visitor,
        "policies.html",
        policies=known_policies(house.app),
        usual=house.app.settings.policy,
        limits_in_words=limits_in_words,
        most_users=MOST_USERS,
    )


# --- one ------------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """A rule as a page shows it."""

    name: str
    title: str
    retries: bool
    remarks: list[str]
    waits: list[Wait]
    more_waits: bool
    picture: Markup | None


@router.get("/policies/{name}")
async def show_policy(request: Request, visitor: Viewer, name: str) -> Response:
    """One policy: its rules in words and pictures, and what it would decide."""
    house = house_of(request)
    version = request.query_params.get("version")
    found = [
        each
        for each in known_policies(house.app)
        if each.policy.name == name and (each.policy.version == version if version else True)
    ]
    if not found:
        raise ProblemError(404, f"there is no policy {name!r:.120} here")
    known = min(found, key=lambda each: not each.named)
    policy = known.policy
    asked = {key: request.query_params.get(key, "").strip()[:LONGEST_FIELD] for key in ASKED}
    told, wrong = _answered(policy, asked)
    return await page(
        request,
        visitor,
        "policy.html",
        known=known,
        policy=policy,
        usual=house.app.settings.policy,
        limits=limits_in_words(policy),
        rules=[_shown(policy, rule) for rule in (*policy.rules, policy.otherwise)],
        codes=list(FaultCode),
        asked=asked,
        version="" if known.named else policy.version,
        told=told,
        retries=told is not None and isinstance(told.verdict, Retry),
        wrong=wrong,
        most_users=MOST_USERS,
        window_in_words=window_in_words,
    )


def _shown(policy: Policy, rule: Rule) -> Shown:
    waits = schedule(policy, rule)
    name = rule_name(policy, rule)
    drawn = [
        Delay(each.least_seconds, (each.least_seconds + each.most_seconds) / 2, each.most_seconds)
        for each in waits
    ]
    label = f"How long {name} of {policy.name} waits after each failure"
    return Shown(
        name=name.capitalize(),
        title="everything else" if name == "otherwise" else rule.title,
        retries=rule.retry,
        remarks=remarks(rule) if rule.retry else [],
        waits=waits,
        more_waits=len(waits) == MOST_ROWS,
        picture=delays(label, drawn) if drawn else None,
    )


# --- what it would decide -------------------------------------------------------------------------


def _answered(policy: Policy, asked: Mapping[str, str]) -> tuple[Explanation | None, str]:
    """What the policy decides about the fault that was asked about, or what is wrong with that."""
    if not asked["fault"] and not asked["status"]:
        return None, ""
    try:
        return _explained(policy, asked), ""
    except ValueError as error:
        return None, str(error)


def _explained(policy: Policy, asked: Mapping[str, str]) -> Explanation:
    status = _number(asked, "status", 400, 599)
    attempt = _number(asked, "attempt", 1, MOST_ATTEMPTS) or 1
    hint = _number(asked, "retry_after", 0, LONGEST_WAIT_SECONDS)
    if asked["fault"] and asked["fault"] not in FaultCode.__members__:
        raise ValueError(f"fault: found {asked['fault']!r}, expected one of those listed")
    code = FaultCode[asked["fault"]] if asked["fault"] else code_of_status(int(status or 0))
    fault = Fault(code, status=None if status is None else int(status), retry_after_seconds=hint)
    # The window is shown, not the draw: who looks again must not see something else.
    return explain(policy, fault, attempt=int(attempt), rng=random.Random(0))


def _number(asked: Mapping[str, str], name: str, least: float, most: float) -> float | None:
    text = asked[name]
    if not text:
        return None
    label = name.replace("_", "-").capitalize()
    try:
        found = float(text)
    except ValueError:
        raise ValueError(f"{label}: found {text!r}, expected a number") from None
    if not least <= found <= most or (name != "retry_after" and found != int(found)):
        raise ValueError(f"{label}: found {text}, expected {least:,} to {most:,.0f}")
    return found
