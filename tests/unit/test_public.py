"""What users see of a fault (SPEC A9)."""

from dataclasses import replace

import pytest

from seawall import AI_CODES, CONVERTER_CODES, Fault, FaultCode, PublicMap

F = FaultCode


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(F.INVALID_INPUT, detail="NOT_PDF"), "NOT_PDF"),
        (Fault(F.INVALID_INPUT, detail="TOO_LARGE"), "TOO_LARGE"),
        (Fault(F.INVALID_REQUEST, status=413), "TOO_LARGE"),
        (Fault(F.INVALID_REQUEST, status=400), "GW_4XX"),
        (Fault(F.INVALID_RESPONSE), "GW_4XX"),
        (Fault(F.INVALID_INPUT, detail="INVALID_MAPPING"), "GW_4XX"),
        (Fault(F.UNKNOWN, detail="PARSE_ERROR"), "GW_4XX"),
        (Fault(F.UNKNOWN, detail="VALIDATION_ERROR"), "GW_4XX"),
        (Fault(F.UNAVAILABLE), "GW_5XX"),
        (Fault(F.UNKNOWN, detail="GW_UNAVAILABLE"), "GW_5XX"),
        (Fault(F.UPSTREAM_ERROR, status=502), "GW_5XX"),
        (Fault(F.TIMEOUT), "GW_TIMEOUT"),
        (Fault(F.IO_ERROR), "IO_ERROR"),
        (Fault(F.RESOURCE_EXHAUSTED), "IO_ERROR"),
        (Fault(F.NOT_READY), "NOT_READY"),
        (Fault(F.EXPIRED), "EXPIRED"),
        (Fault(F.UNAUTHORIZED, detail="FORBIDDEN"), "FORBIDDEN"),
        (Fault(F.UNKNOWN), "UNKNOWN"),
        (Fault(F.INTERNAL_ERROR, detail="SOMETHING_ELSE"), "UNKNOWN"),
    ],
    ids=str,
)
def test_the_converters_ten_codes(fault, code):
    assert CONVERTER_CODES.view(fault).code == code


def test_each_of_the_ten_and_the_nine_can_be_reached():
    for public, count in ((CONVERTER_CODES, 10), (AI_CODES, 9)):
        reached = {*public.codes.values(), *public.details.values(), *public.statuses.values()}
        assert reached == set(public.messages)
        assert len(reached) == count


RETRYABLE = {
    "RATE_LIMITED",
    "INVALID_UPSTREAM_RESPONSE",
    "TIMEOUT",
    "UPSTREAM_UNAVAILABLE",
    "UPSTREAM_ERROR",
}


@pytest.mark.parametrize("code", FaultCode)
def test_the_nine_say_whether_trying_again_makes_sense(code):
    seen = AI_CODES.view(Fault(code))
    assert seen.retryable == (seen.code in RETRYABLE)
    assert "retryAfterMs" not in seen.as_json()


def test_the_nine_say_when_in_milliseconds():
    seen = AI_CODES.view(Fault(F.RATE_LIMITED, retry_after_seconds=1.5)).as_json()
    assert seen["retryAfterMs"] == 1500
    assert list(seen) == ["code", "message", "retryable", "retryAfterMs"]


def test_an_upstream_that_says_no_retry_is_not_retryable():
    assert not AI_CODES.view(Fault(F.UPSTREAM_ERROR, final=True)).retryable


@pytest.mark.parametrize("public", [AI_CODES, CONVERTER_CODES], ids=lambda p: p.name)
def test_nothing_that_an_upstream_said_reaches_users(public):
    leaking = "Traceback: /srv/app/main.py key sk-live-1234567890abcdef at 10.0.0.7"
    for code in FaultCode:
        line = public.view(Fault(code, leaking)).message
        assert line in public.messages.values()
        assert "\n" not in line


def test_a_map_must_know_every_code_and_have_a_line_for_each():
    with pytest.raises(ValueError, match="mine: no public code for RATE_LIMITED, "):
        PublicMap(name="mine", messages={}, codes={}, retryable=frozenset())
    everything = dict.fromkeys(FaultCode, "OOPS")
    with pytest.raises(ValueError, match="mine: no message for OOPS"):
        PublicMap(name="mine", messages={}, codes=everything, retryable=frozenset())


@pytest.mark.parametrize("public", [AI_CODES, CONVERTER_CODES], ids=lambda each: each.name)
def test_every_public_code_has_an_http_status_that_says_whose_fault_it_is(public):
    for code in public.messages:
        assert 400 <= public.http_status(code) < 600
    assert public.http_status("UNKNOWN") == 500


def test_a_status_for_a_code_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="no message for ODD"):
        replace(AI_CODES, answers={"ODD": 400})
