"""Calling now with a policy: the same verdicts, carried out by waiting."""

import asyncio
import logging
import random

import pytest

from seawall import Backoff, Classifier, FaultCode, FaultError, Inline, Policy, Rule
from seawall.clock import ManualClock

F = FaultCode
POLICY = Policy(
    name="p",
    max_attempts=3,
    rules=[
        Rule(
            on="RATE_LIMITED",
            counts=False,
            max_attempts=9,
            backoff=Backoff(curve="fixed", base_seconds=2, jitter="none"),
        ),
        Rule(
            on=["TIMEOUT", "UNKNOWN"],
            backoff=Backoff(curve="exponential", base_seconds=10, jitter="none"),
        ),
    ],
)


class Flaky:
    """Raises what it was given, in turn, then answers; sync and async alike."""

    def __init__(self, *errors):
        self.errors, self.calls = list(errors), 0

    def __call__(self, value="done"):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return value

    async def later(self, value="done"):
        return self(value)


@pytest.fixture(params=["call", "acall"])
def run(request):
    """Carry a call out by either twin, on a clock that only moves when it is waited on."""

    def carry_out(flaky, *args, policy=POLICY, classifier=None):
        clock = ManualClock()
        more = {} if classifier is None else {"classifier": classifier}
        inline = Inline(policy, rng=random.Random(0), clock=clock, **more)
        try:
            if request.param == "call":
                return inline.call(flaky, *args), clock.monotonic()
            return asyncio.run(inline.acall(flaky.later, *args)), clock.monotonic()
        finally:
            carry_out.waited = clock.monotonic()

    return carry_out


def test_the_first_success_is_the_value_and_waits_follow_the_policy(run):
    flaky = Flaky(TimeoutError(), TimeoutError())
    assert run(flaky, "report") == ("report", 30)
    assert flaky.calls == 3


def test_giving_up_raises_the_original_with_a_note(run):
    last = TimeoutError("third")
    with pytest.raises(TimeoutError, match="third") as caught:
        run(Flaky(TimeoutError(), TimeoutError(), last))
    assert caught.value is last
    assert last.__notes__ == ["seawall: gave up after 3 attempts (exhausted; TIMEOUT; policy p)"]


def test_a_fatal_fault_is_raised_at_once(run):
    flaky = Flaky(KeyError("bug"))
    with pytest.raises(KeyError):
        run(flaky)
    assert flaky.calls == 1
    assert run.waited == 0


def test_a_failure_that_does_not_count_leaves_the_allowance_whole(run):
    throttled = [FaultError(F.RATE_LIMITED) for _ in range(5)]
    flaky = Flaky(*throttled, TimeoutError(), TimeoutError())
    assert run(flaky) == ("done", 5 * 2 + 10 + 20)


def test_retry_after_is_kept(run):
    value, waited = run(Flaky(FaultError(F.RATE_LIMITED, retry_after_seconds=100)))
    assert value == "done"
    assert waited >= 100


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_cancellation_and_ctrl_c_go_straight_through(stop):
    flaky = Flaky(stop())
    with pytest.raises(stop):
        Inline(POLICY, clock=ManualClock()).call(flaky)
    assert flaky.calls == 1


def test_an_applications_own_classifier_is_used(run):
    own = Classifier()
    own.register(KeyError)(lambda _: F.TIMEOUT)
    assert run(Flaky(KeyError()), classifier=own) == ("done", 10)


def test_the_policys_time_bounds_the_call(run):
    hasty = Policy(
        name="hasty",
        max_attempts=99,
        max_elapsed_seconds=25,
        rules=[Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=10, jitter="none"))],
    )
    with pytest.raises(TimeoutError) as caught:
        run(Flaky(*[TimeoutError() for _ in range(9)]), policy=hasty)
    assert "after 3 attempts (deadline" in caught.value.__notes__[0]


def test_the_decorrelated_curve_remembers_its_previous_delay(run):
    policy = Policy(
        name="d",
        max_attempts=50,
        rules=[Rule(on="all", backoff=Backoff(curve="decorrelated", base_seconds=1))],
    )
    _, waited = run(Flaky(*[TimeoutError() for _ in range(40)]), policy=policy)
    assert waited > 40 * 3


def test_every_failure_is_told_and_missing_configuration_is_an_alert(run, caplog):
    caplog.set_level(logging.INFO, "seawall")
    with pytest.raises(FaultError):
        run(Flaky(TimeoutError("slow"), FaultError(F.CONFIG_MISSING, "no key")))
    events = [(r.levelname, r.seawall["event"]) for r in caplog.records]
    assert events == [
        ("INFO", "retry_scheduled"),
        ("ERROR", "config_missing"),
        ("WARNING", "gave_up"),
    ]
    retry = caplog.records[0].seawall
    assert retry["fault_code"] == "TIMEOUT"
    assert (retry["attempt"], retry["max_attempts"], retry["delay_ms"]) == (1, 3, 10_000)
    assert retry["policy"] == POLICY.id


def test_the_policys_own_methods_wait_for_real():
    quick = Policy(
        name="q",
        max_attempts=2,
        rules=[Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=0.001, jitter="none"))],
    )
    assert quick.call(Flaky(TimeoutError()), "a") == "a"
    assert asyncio.run(quick.acall(Flaky(TimeoutError()).later, "b")) == "b"


def test_an_absurd_wait_ends_the_call_instead_of_sleeping(run):
    for absurd in (86_400, 1e300):
        flaky = Flaky(
            FaultError(F.RATE_LIMITED, retry_after_seconds=absurd), FaultError(F.UNAUTHORIZED)
        )
        with pytest.raises(FaultError) as caught:
            run(flaky)
        assert run.waited < 60
    assert "UNAUTHORIZED" in caught.value.__notes__[0]  # 1e300 seconds are no hint at all


def test_a_day_of_waiting_is_given_up_as_deadline(run):
    with pytest.raises(FaultError) as caught:
        run(Flaky(FaultError(F.RATE_LIMITED, retry_after_seconds=86_400)))
    assert "(deadline; RATE_LIMITED" in caught.value.__notes__[0]
    assert run.waited == 0


def test_a_rules_allowance_ends_however_large_it_is(run):
    many = Policy(
        name="many",
        max_elapsed_seconds=1e7,
        rules=[
            Rule(
                on="all",
                max_attempts=1_500,
                counts=False,
                backoff=Backoff(curve="fixed", base_seconds=1),
            )
        ],
    )
    flaky = Flaky(*[TimeoutError() for _ in range(2_000)])
    with pytest.raises(TimeoutError) as caught:
        run(flaky, policy=many)
    assert flaky.calls == 1_500
    assert "after 1500 attempts (exhausted" in caught.value.__notes__[0]


def test_the_wrong_twin_is_refused_at_once():
    patient = Policy(name="p", max_attempts=9, rules=[Rule(on="all")])
    flaky = Flaky()
    with pytest.raises(TypeError, match=r"Flaky.later is async: use `await policy.acall"):
        patient.call(flaky.later)
    with pytest.raises(TypeError, match=r"gave nothing to await: use policy\.call"):
        asyncio.run(patient.acall(flaky))
    assert flaky.calls == 1
    with pytest.raises(TypeError, match="expected a function to call, found None"):
        patient.call(None)


def test_a_cancellation_while_it_waits_ends_the_call():
    async def story():
        patient = Policy(
            name="p",
            max_attempts=9,
            rules=[Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=600))],
        )
        flaky = Flaky(TimeoutError())
        call = asyncio.create_task(patient.acall(flaky.later))
        for _ in range(3):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return flaky.calls

    assert asyncio.run(story()) == 1


def test_the_original_exception_reaches_the_caller_even_if_it_takes_no_note(run):
    class ProudError(KeyError):
        def add_note(self, note):
            raise RuntimeError("never")

    proud = ProudError()
    with pytest.raises(ProudError) as caught:
        run(Flaky(proud))
    assert caught.value is proud


def test_a_note_is_made_once(run):
    error = KeyError("x")
    for _ in range(3):
        with pytest.raises(KeyError):
            run(Flaky(error))
    assert len(error.__notes__) == 1


def test_whatever_else_a_call_returns_is_the_callers(tmp_path):
    with (tmp_path / "f").open("w") as file:
        assert Policy(name="p", max_attempts=1).call(lambda: file) is file
        assert not file.closed
