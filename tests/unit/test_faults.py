"""The closed set of fault codes, and what holds for every fault whoever makes it."""

import copy
import math
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seawall.errors import ConfigurationError, FaultError, SeawallError, UnknownPolicyError
from seawall.faults import FINAL_CODES, LONGEST_ID, Fault, FaultCode

CODES = [
    "RATE_LIMITED", "QUOTA_EXHAUSTED", "TIMEOUT", "UNAVAILABLE", "UPSTREAM_ERROR", "INVALID_RESPONSE",
    "REFUSED", "INVALID_REQUEST", "UNAUTHORIZED", "NOT_FOUND", "NOT_READY", "CONFIG_MISSING",
    "INVALID_INPUT", "IO_ERROR", "RESOURCE_EXHAUSTED", "WORKER_LOST", "CANCELLED", "EXPIRED",
    "INTERNAL_ERROR", "UNKNOWN",
]  # fmt: skip
SECRET = "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12"


def test_there_are_exactly_these_twenty_codes():
    assert list(FaultCode.__members__) == CODES
    assert [str(code) for code in FaultCode] == CODES
    assert len(CODES) == 20


def test_no_further_code_can_be_made():
    with pytest.raises(ValueError, match="NO_SUCH_CODE"):
        FaultCode("NO_SUCH_CODE")
    with pytest.raises(TypeError):

        class More(FaultCode):
            pass


def test_only_three_codes_speak_of_the_upstreams_health():
    speaking = {code for code in FaultCode if code.speaks_of_upstream}
    assert speaking == {FaultCode.TIMEOUT, FaultCode.UNAVAILABLE, FaultCode.UPSTREAM_ERROR}


def test_only_a_person_or_a_deadline_is_final():
    assert {FaultCode.CANCELLED, FaultCode.EXPIRED} == FINAL_CODES


@pytest.mark.parametrize("code", FaultCode)
def test_every_code_has_a_meaning_and_survives_copies(code):
    assert code.meaning.endswith(".")
    assert len({other.meaning for other in FaultCode}) == len(CODES)
    assert copy.copy(code) is copy.deepcopy(code) is code
    assert all(pickle.loads(pickle.dumps(code, n)) is code for n in range(6))  # noqa: S301 - our own bytes
    assert FaultCode(code.value) is FaultCode(str(code)) is code


def test_a_code_may_be_given_as_a_word():
    assert Fault("TIMEOUT").code is FaultCode.TIMEOUT
    with pytest.raises(ValueError, match="SOON"):
        Fault("SOON")


def test_a_message_is_one_redacted_line_whoever_makes_the_fault():
    fault = Fault(
        FaultCode.UNAUTHORIZED, f"Incorrect API key provided: {SECRET}\n in /srv/app/x.py"
    )
    assert fault.message == "Incorrect API key provided: [redacted] in …/x.py"
    assert replace(fault, message=f"a\n{SECRET}").message == "a [redacted]"


def test_a_fault_without_a_message_says_what_its_code_means():
    assert Fault(FaultCode.EXPIRED).message == FaultCode.EXPIRED.meaning
    assert str(Fault(FaultCode.TIMEOUT, "late", status=504)) == "TIMEOUT 504: late"
    assert str(Fault(FaultCode.TIMEOUT, "late")) == "TIMEOUT: late"


@pytest.mark.parametrize(
    "rubbish", [math.nan, math.inf, -math.inf, -1, -0.5, 0, 10**400, "30", None]
)
def test_a_wait_that_is_none_is_no_wait(rubbish):
    assert Fault(FaultCode.RATE_LIMITED, retry_after_seconds=rubbish).retry_after_seconds is None


@pytest.mark.parametrize("wait", [0.001, 1, 30, 86_400.5])
def test_a_wait_is_kept_as_it_is(wait):
    kept = Fault(FaultCode.RATE_LIMITED, retry_after_seconds=wait).retry_after_seconds
    assert kept == wait
    assert isinstance(kept, float)


def test_a_request_id_is_cleaned_and_bounded():
    assert Fault(FaultCode.TIMEOUT, request_id="req_1\n<script>").request_id == "req_1script"
    assert Fault(FaultCode.TIMEOUT, request_id="\n\n").request_id is None
    assert Fault(FaultCode.TIMEOUT, request_id="a" * 10**6).request_id == "a" * LONGEST_ID


def test_a_detail_is_one_safe_line_or_nothing():
    assert Fault(FaultCode.INVALID_INPUT, detail="INVALID_MAPPING").detail == "INVALID_MAPPING"
    assert Fault(FaultCode.INVALID_INPUT, detail=f"x {SECRET}\n").detail == "x [redacted]"
    assert Fault(FaultCode.INVALID_INPUT, detail=" \n").detail is None


def test_a_fingerprint_tells_code_status_kind_and_wording_apart_but_not_numbers():
    fault = Fault(FaultCode.TIMEOUT, "job 5 was late", status=504, kinds=("httpx.ReadTimeout",))
    others = [
        replace(fault, fingerprint="", code=FaultCode.UNAVAILABLE),
        replace(fault, fingerprint="", status=None),
        replace(fault, fingerprint="", kinds=("httpx.ConnectTimeout",)),
        replace(fault, fingerprint="", message="job 5 was early"),
    ]
    assert len({fault.fingerprint, *(other.fingerprint for other in others)}) == 5
    assert (
        replace(fault, fingerprint="", message="job 77 was late").fingerprint == fault.fingerprint
    )
    assert replace(fault, fingerprint="given").fingerprint == "given"


def test_a_fault_is_a_value():
    fault = Fault(FaultCode.TIMEOUT, "late", kinds=("TimeoutError",))
    assert fault == Fault(FaultCode.TIMEOUT, "late", kinds=("TimeoutError",))
    assert len({fault, copy.deepcopy(fault), pickle.loads(pickle.dumps(fault))}) == 1  # noqa: S301 - our own bytes
    with pytest.raises(FrozenInstanceError):
        fault.status = 1


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(FaultCode),
    st.text(max_size=500),
    st.one_of(st.none(), st.floats(), st.integers()),
    st.one_of(st.none(), st.text()),
    st.one_of(st.none(), st.text()),
)
def test_whatever_it_is_made_of_a_fault_is_fit_to_be_shown(code, message, wait, request_id, detail):
    fault = Fault(code, message, retry_after_seconds=wait, request_id=request_id, detail=detail)
    shown = [fault.message, fault.request_id or "x", fault.detail or "x"]
    assert all(text and len(text.splitlines()) == 1 and len(text) <= 300 for text in shown)
    assert fault.retry_after_seconds is None or 0 < fault.retry_after_seconds < math.inf
    assert len(fault.fingerprint) == 16
    assert replace(fault) == fault


def test_an_error_of_ours_is_caught_as_one():
    assert issubclass(UnknownPolicyError, ConfigurationError)
    assert issubclass(UnknownPolicyError, LookupError)
    assert issubclass(FaultError, SeawallError)


def test_a_fault_error_survives_pickling_and_keeps_its_raw_output_to_itself():
    error = FaultError("INVALID_RESPONSE", "no JSON", detail="BAD", raw_output="the raw words")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (again.code, str(again), again.detail) == ("INVALID_RESPONSE", "no JSON", "BAD")
    assert again.raw_output == "the raw words"
    assert "the raw words" not in f"{error} {error!r}"
    assert str(FaultError("EXPIRED")) == FaultCode.EXPIRED.meaning


def test_a_request_id_that_is_a_key_is_not_kept():
    assert Fault(FaultCode.TIMEOUT, request_id="sk-proj-abcdef0123456789").request_id is None
    assert (
        Fault(FaultCode.TIMEOUT, request_id="req_011CSHoEeqs5C35K2UUqR7Fy").request_id
        == "req_011CSHoEeqs5C35K2UUqR7Fy"
    )
    assert (
        Fault(FaultCode.TIMEOUT, request_id="0123456789abcdef0123456789abcdef").request_id
        is not None
    )
