"""Any exception becomes a Fault, whatever hostile object it is."""

import asyncio
import errno
import json
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seawall.decisions.classify import Classifier
from seawall.errors import FaultError, UnknownPolicyError
from seawall.faults import Fault, FaultCode

SECRET = "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12"


class OddError(Exception):
    """An exception that no table knows."""

    __module__ = "vendor.deep.private"


class OdderError(OddError):
    __module__ = "vendor.other"


class BaseRefusal(BaseException):
    """Neither an Exception nor one that must be let through."""


def raised(make, *args):
    """The exception with its causes, as raising it really makes them."""
    try:
        make(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def classify(exc, **options):
    return Classifier().classify(exc, **options)


def is_fit_to_be_shown(fault):
    assert isinstance(fault, Fault)
    assert isinstance(fault.code, FaultCode)
    assert 0 < len(fault.message) <= 300
    assert not {unicodedata.category(c) for c in fault.message} & {"Cc", "Zl", "Zp", "Cs"}
    assert SECRET not in f"{fault.message} {fault.detail}"
    return True


# ---------------------------------------------------------------- causes


def test_an_unknown_wrapper_means_what_it_was_raised_from():
    def wrap():
        raise OddError("no luck") from TimeoutError("late by 5 s")

    fault = classify(raised(wrap))
    assert fault.code is FaultCode.TIMEOUT
    assert fault.ambiguous
    assert fault.message == "OddError: no luck (from TimeoutError: late by 5 s)"
    assert fault.kinds == ("vendor.OddError", "TimeoutError", "OSError")


def test_an_unknown_wrapper_means_what_was_being_handled():
    def wrap():
        try:
            raise ConnectionRefusedError("closed")
        except OSError:
            raise OddError("no luck")  # noqa: B904 - the context is the point

    assert classify(raised(wrap)).code is FaultCode.UNAVAILABLE


def test_what_was_raised_from_none_is_not_walked():
    def wrap():
        try:
            raise TimeoutError("late")
        except OSError:
            raise OddError("no luck") from None

    fault = classify(raised(wrap))
    assert fault.code is FaultCode.UNKNOWN
    assert fault.message == "OddError: no luck"


def test_what_a_connection_pool_raised_from_none_is_walked():
    pooled = type("ConnectError", (Exception,), {"__module__": "httpcore._exceptions"})
    wrapper = type("ConnectError", (Exception,), {"__module__": "httpx"})

    def connect():
        try:
            raise PermissionError("untrusted")
        except OSError as error:
            raise pooled("failed") from error

    def wrap():
        try:
            try:
                connect()
            except pooled as error:
                raise error from None
        except pooled as error:
            raise wrapper("failed") from error

    assert classify(raised(wrap)).code is FaultCode.UNAUTHORIZED


def test_a_key_error_in_the_context_does_not_make_it_a_bug():
    def wrap():
        try:
            {}["x"]
        except KeyError:
            raise OddError("no luck")  # noqa: B904 - the context is the point

    fault = classify(raised(wrap))
    assert fault.code is FaultCode.UNKNOWN
    assert fault.kinds == ("vendor.OddError",)


def test_the_cause_outranks_the_context():
    def wrap():
        try:
            raise MemoryError
        except MemoryError:
            raise OddError("no luck") from TimeoutError("late")

    assert classify(raised(wrap)).code is FaultCode.TIMEOUT


def test_a_cause_that_counts_as_false_is_a_cause_nonetheless():
    class EmptyError(TimeoutError):
        def __len__(self):
            return 0

    def wrap():
        raise OddError("no luck") from EmptyError("late")

    assert classify(raised(wrap)).code is FaultCode.TIMEOUT


def test_a_cause_further_down_is_found():
    error = OddError("top")
    inner = error
    for depth in range(8):
        inner.__cause__ = OddError(f"at {depth}")
        inner = inner.__cause__
    inner.__cause__ = TimeoutError("late")
    assert classify(error).code is FaultCode.TIMEOUT


@pytest.mark.parametrize("attribute", ["__cause__", "__context__"])
def test_circles_and_endless_chains_come_to_an_end(attribute):
    one, other = OddError("one"), OddError("other")
    setattr(one, attribute, other)
    setattr(other, attribute, one)
    assert classify(one).code is FaultCode.UNKNOWN
    top = link = OddError("top")
    for _ in range(10_000):
        setattr(link, attribute, OddError("further"))
        link = getattr(link, attribute)
    assert classify(top).code is FaultCode.UNKNOWN


def test_a_failed_connection_yields_to_the_certificate_underneath():
    class ConnectError(Exception):
        __module__ = "httpx._exceptions"

    class SSLCertVerificationError(Exception):
        __module__ = "ssl"

    error = ConnectError("failed")
    error.__cause__ = SSLCertVerificationError("self-signed")
    assert classify(error).code is FaultCode.UNAUTHORIZED
    error.__cause__ = KeyError("a bug that was handled")
    assert classify(error).code is FaultCode.UNAVAILABLE


# ---------------------------------------------------------------- cancellation and groups


@pytest.mark.parametrize(
    "kind", [KeyboardInterrupt, asyncio.CancelledError, SystemExit, GeneratorExit]
)
def test_a_cancellation_is_neither_success_nor_failure(kind):
    assert classify(kind()).code is FaultCode.CANCELLED


def test_an_error_while_cancelling_is_not_taken_for_a_cancellation():
    error = OddError("while cleaning up")
    error.__context__ = asyncio.CancelledError()
    assert classify(error).code is FaultCode.UNKNOWN


def test_of_a_group_the_telling_leaf_is_taken():
    group = ExceptionGroup(
        "all", [KeyError("x"), OddError("y"), ExceptionGroup("in", [TimeoutError("late")])]
    )
    fault = classify(group)
    assert fault.code is FaultCode.TIMEOUT
    assert fault.message == "TimeoutError: late"


def test_of_a_group_without_a_telling_leaf_the_first_is_taken():
    assert (
        classify(ExceptionGroup("all", [KeyError("x"), OddError("y")])).code
        is FaultCode.INTERNAL_ERROR
    )
    assert (
        classify(BaseExceptionGroup("all", [asyncio.CancelledError()])).code is FaultCode.CANCELLED
    )


def test_a_group_as_a_cause_tells_what_its_leaves_tell():
    error = OddError("tasks failed")
    error.__cause__ = ExceptionGroup("all", [KeyError("x"), TimeoutError("late")])
    assert classify(error).code is FaultCode.TIMEOUT
    error.__cause__.exceptions[1].__cause__ = error
    assert classify(error).code is FaultCode.TIMEOUT


def test_deep_and_wide_groups_come_to_an_end():
    group = ExceptionGroup("leaf", [TimeoutError("late")])
    for _ in range(900):
        group = ExceptionGroup("deep", [group])
    assert classify(group).code is FaultCode.TIMEOUT
    wide = ExceptionGroup("wide", [OddError("x")] * 20_000)
    assert classify(wide).code is FaultCode.UNKNOWN
    tree = ExceptionGroup("leaf", [OddError("x")])
    for _ in range(900):
        tree = ExceptionGroup("tree", [tree] + [OddError("x")] * 60)
    assert classify(tree).code is FaultCode.UNKNOWN
    bottomless = ExceptionGroup("leaf", [TimeoutError("late")])
    for _ in range(5_000):
        bottomless = ExceptionGroup("deep", [bottomless])
    assert is_fit_to_be_shown(classify(bottomless))


def test_a_group_that_says_it_holds_itself_comes_to_an_end():
    class Endless(ExceptionGroup):
        @property
        def exceptions(self):
            return (self, self)

    assert classify(Endless("x", [TimeoutError("late")])).code is FaultCode.TIMEOUT


# ---------------------------------------------------------------- an application's own


def test_a_classifier_is_found_by_class_and_by_any_dotted_name():
    for name in (
        OddError,
        "vendor.OddError",
        "vendor.deep.private.OddError",
        "vendor.else.OddError",
    ):
        mine = Classifier()
        mine.register(name)(lambda _: FaultCode.NOT_READY)
        assert mine.classify(OddError("x")).code is FaultCode.NOT_READY
        assert mine.classify(OdderError("x")).code is FaultCode.NOT_READY
        assert mine.classify(Exception("x")).code is FaultCode.UNKNOWN


def test_a_classifier_for_a_builtin_overrides_the_table():
    for name in (TimeoutError, "TimeoutError", "builtins.TimeoutError"):
        mine = Classifier()
        mine.register(name)(lambda _: "INVALID_INPUT")
        assert mine.classify(TimeoutError("x")).code is FaultCode.INVALID_INPUT
    assert classify(TimeoutError("x")).code is FaultCode.TIMEOUT


def test_the_most_specific_classifier_and_the_last_registration_win():
    mine = Classifier()
    mine.register(OddError)(lambda _: FaultCode.NOT_READY)
    mine.register(OdderError)(lambda _: FaultCode.REFUSED)
    assert mine.classify(OdderError("x")).code is FaultCode.REFUSED
    mine.register("vendor.OdderError")(lambda _: None)
    assert mine.classify(OdderError("x")).code is FaultCode.NOT_READY


def test_a_classifier_may_say_everything_with_a_fault():
    mine = Classifier()

    @mine.register(OddError, KeyError)
    def judge(error):
        return Fault(FaultCode.RATE_LIMITED, f"said {error}", retry_after_seconds=7, detail="BUSY")

    fault = mine.classify(OddError(f"slow {SECRET}"))
    assert (fault.code, fault.retry_after_seconds, fault.detail) == (
        FaultCode.RATE_LIMITED,
        7,
        "BUSY",
    )
    assert fault.message == "said slow [redacted]"
    assert fault.kinds == ("vendor.OddError",)
    assert mine.classify(KeyError("x")).code is FaultCode.RATE_LIMITED
    assert judge(OddError("x")).detail == "BUSY"


def test_a_classifier_that_fails_or_answers_nonsense_leaves_the_built_in_verdict():
    def fails(_):
        raise ZeroDivisionError

    for own in (
        fails,
        lambda: None,
        lambda _: None,
        lambda _: "NONSENSE",
        lambda _: 429,
        lambda _: [],
        lambda _: object(),
    ):
        mine = Classifier()
        mine.register(TimeoutError)(own)
        assert mine.classify(TimeoutError("x")).code is FaultCode.TIMEOUT


def test_a_classifier_judges_causes_and_groups_as_well():
    mine = Classifier()
    mine.register(OddError)(lambda _: FaultCode.NOT_READY)
    wrapper = Exception("outer")
    wrapper.__cause__ = OddError("inner")
    assert mine.classify(wrapper).code is FaultCode.NOT_READY
    mine.register(ExceptionGroup)(lambda _: FaultCode.REFUSED)
    assert mine.classify(ExceptionGroup("x", [TimeoutError("late")])).code is FaultCode.REFUSED


def test_the_applications_word_outranks_whose_data_was_being_checked():
    mine = Classifier()
    mine.register(json.JSONDecodeError)(lambda _: FaultCode.NOT_READY)
    error = raised(json.loads, "{")
    assert mine.classify(error, validating="input").code is FaultCode.NOT_READY


def test_a_classifier_without_a_name_is_refused():
    with pytest.raises(TypeError, match="name the exceptions"):
        Classifier().register()


# ---------------------------------------------------------------- what handlers say


def test_a_fault_error_says_what_it_says():
    error = FaultError(
        "RATE_LIMITED", "slower", status=429, retry_after_seconds=7, request_id="req_1",
        detail="INVALID_MAPPING", ambiguous=True, raw_output="the raw words",
    )  # fmt: skip
    fault = classify(error)
    assert fault == Fault(
        FaultCode.RATE_LIMITED, "slower", status=429, retry_after_seconds=7, request_id="req_1",
        detail="INVALID_MAPPING", ambiguous=True, kinds=("seawall.FaultError", "seawall.SeawallError"),
    )  # fmt: skip
    assert "the raw words" not in repr(fault)


def test_a_fault_error_outranks_its_cause_and_speaks_through_a_wrapper():
    error = FaultError("REFUSED", "no")
    error.__cause__ = TimeoutError("late")
    assert classify(error).code is FaultCode.REFUSED
    wrapper = OddError("outer")
    wrapper.__cause__ = error
    fault = classify(wrapper)
    assert fault.code is FaultCode.REFUSED
    assert fault.kinds == ("vendor.OddError", "seawall.FaultError", "seawall.SeawallError")


@pytest.mark.parametrize("code", ["NO_SUCH", "", None, 429, [], object()])
def test_a_fault_error_with_an_unknown_code_is_unknown(code):
    odd = FaultError("UNKNOWN", "odd")
    odd.code = code
    fault = classify(odd)
    assert fault.code is FaultCode.UNKNOWN
    assert fault.message == "odd"


def test_a_fault_error_keeps_its_code_whatever_else_is_wrong_with_it():
    class BareError(FaultError):
        def __init__(self):
            self.code = FaultCode.NOT_READY

    assert classify(BareError()).code is FaultCode.NOT_READY
    odd = FaultError(
        "TIMEOUT", "late", status="x", retry_after_seconds="soon", request_id=7, detail=[]
    )
    fault = classify(odd)
    assert fault.code is FaultCode.TIMEOUT
    assert (fault.status, fault.retry_after_seconds, fault.request_id, fault.detail) == (None,) * 4


def test_bad_data_is_the_upstreams_or_the_jobs_own():
    for error in (raised(json.loads, "{"), raised(b"\xff".decode)):
        assert classify(error).code is FaultCode.INVALID_RESPONSE
        assert classify(error, validating="output").code is FaultCode.INVALID_RESPONSE
        assert classify(error, validating="input").code is FaultCode.INVALID_INPUT
        assert (
            classify(ExceptionGroup("x", [error]), validating="input").code
            is FaultCode.INVALID_INPUT
        )
    assert classify(TimeoutError(), validating="input").code is FaultCode.TIMEOUT


def test_a_fault_is_its_own_classification():
    fault = Fault(FaultCode.EXPIRED)
    assert classify(fault) is fault


@pytest.mark.parametrize(
    "thing", [None, 0, "TimeoutError", object(), TimeoutError, [TimeoutError()], lambda: 1]
)
def test_what_is_no_exception_is_unknown(thing):
    fault = classify(thing)
    assert fault.code is FaultCode.UNKNOWN
    assert fault.message.startswith("not an exception: ")


# ---------------------------------------------------------------- hostile exceptions


def raising(error):
    def raises(*_, **__):
        raise error

    return raises


ERRORS = [
    ZeroDivisionError,
    RecursionError,
    MemoryError,
    GeneratorExit,
    BaseRefusal,
    asyncio.CancelledError,
    StopIteration,
]
READ = [
    "status_code", "status", "response", "headers", "code", "type", "body", "details", "request_id",
    "sqlstate", "errno", "__cause__", "__context__", "__suppress_context__", "__class__", "__dict__",
    "args", "message", "error_code", "http_status", "reason",
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", READ)
def test_a_property_may_raise_anything(name, error):
    hostile = type("HostileError", (TimeoutError,), {name: property(raising(error))})("late")
    assert is_fit_to_be_shown(classify(hostile))
    if issubclass(error, Exception) and name != "__class__":
        assert classify(hostile).code is FaultCode.TIMEOUT


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "name",
    [
        "__str__",
        "__repr__",
        "__getattribute__",
        "__getattr__",
        "__eq__",
        "__hash__",
        "__bool__",
        "__len__",
    ],
)
def test_a_method_may_raise_anything(name, error):
    hostile = type("HostileError", (TimeoutError,), {name: raising(error)})("late")
    assert is_fit_to_be_shown(classify(hostile))
    wrapper = OddError("outer")
    wrapper.__cause__ = hostile
    assert is_fit_to_be_shown(classify(wrapper))


def test_only_an_interrupt_goes_through():
    hostile = type("HostileError", (Exception,), {"__str__": raising(KeyboardInterrupt)})()
    with pytest.raises(KeyboardInterrupt):
        classify(hostile)
    exiting = type("HostileError", (Exception,), {"__str__": raising(SystemExit)})()
    assert classify(exiting).code is FaultCode.UNKNOWN


@pytest.mark.parametrize(
    "said", ["x" * 5_000_000, "word " * 1_000_000, "\n" * 1_000_000, "\ud800", "", " \x00", 7, None]
)
def test_a_message_may_be_anything(said):
    fault = classify(type("HostileError", (TimeoutError,), {"__str__": lambda _: said})())
    assert fault.code is FaultCode.TIMEOUT
    assert is_fit_to_be_shown(fault)


class Unequal:
    __hash__ = None
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __int__ = __index__ = __bool__ = __str__ = raising(
        ZeroDivisionError
    )
    __len__ = __iter__ = __getattr__ = items = get = raising(ZeroDivisionError)


class UnequalNumber(int):
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __int__ = __str__ = raising(ZeroDivisionError)
    __hash__ = None


ODD_VALUES = [
    True, float("nan"), float("inf"), -1, 0, 99, 600, 10**400, "429", b"429", None, [], {}, (), object(),
    Unequal(), UnequalNumber(429), Unequal, type, {"items": 7}, {"code": {}}, [Unequal()], "x" * 10**6,
]  # fmt: skip


@pytest.mark.parametrize("which", range(len(ODD_VALUES)))
def test_an_attribute_may_be_anything(which):
    for name in READ:
        if name.startswith("__") or name == "args":
            continue
        error = OddError("no luck")
        setattr(error, name, ODD_VALUES[which])
        fault = classify(error)
        assert is_fit_to_be_shown(fault)
        assert fault.status is None or type(fault.status) is int


@pytest.mark.parametrize("status", [True, float("nan"), 99, 600, "429", None])
def test_what_is_no_status_is_not_taken_for_one(status):
    error = OddError("no luck")
    error.status_code = status
    assert (classify(error).code, classify(error).status) == (FaultCode.UNKNOWN, None)


def test_headers_that_cannot_be_read_leave_the_status():
    class Headers(dict):
        items = raising(ZeroDivisionError)

    error = OddError("slow")
    error.status_code, error.headers = 429, Headers({"retry-after": "5"})
    fault = classify(error)
    assert (fault.code, fault.status, fault.retry_after_seconds) == (
        FaultCode.RATE_LIMITED,
        429,
        None,
    )


def test_a_metaclass_cannot_hide_what_an_exception_is():
    class Hiding(type):
        __name__ = __module__ = __mro__ = property(raising(BaseRefusal))

        def __instancecheck__(cls, _):
            raise BaseRefusal

        __subclasscheck__ = __instancecheck__
        __str__ = __repr__ = raising(BaseRefusal)

    hidden = Hiding("Hidden", (TimeoutError,), {})("late")
    fault = classify(hidden)
    assert fault.code is FaultCode.TIMEOUT
    assert fault.message == "Hidden: late"


@pytest.mark.parametrize(
    "module",
    [None, 7, "", ".", "a.b.c", "\n", object(), [], b"x", Unequal()],
    ids=lambda module: type(module).__name__,
)
def test_a_module_may_be_anything(module):
    error = type("OddNameError", (TimeoutError,), {"__module__": module})("late")
    assert classify(error).code is FaultCode.TIMEOUT
    assert is_fit_to_be_shown(classify(error))


def test_an_exception_that_lies_about_its_class_does_no_harm():
    for claimed in (Fault, BaseExceptionGroup, FaultError, str, dict, None, 7):
        lying = type(
            "LyingError", (TimeoutError,), {"__class__": property(lambda _, c=claimed: c)}
        )("late")
        assert is_fit_to_be_shown(classify(lying))
        pretending = type("Pretender", (), {"__class__": property(lambda _, c=claimed: c)})()
        assert is_fit_to_be_shown(classify(pretending))
    pretending = type("Pretender", (), {"__class__": TimeoutError})()
    assert is_fit_to_be_shown(classify(pretending))


def test_a_secret_in_any_place_does_not_come_out():
    error = OddError(f"key {SECRET}")
    error.body = {"error": {"message": f"Incorrect API key provided: {SECRET}", "code": SECRET}}
    error.__cause__ = TimeoutError(f"while using {SECRET}")
    assert is_fit_to_be_shown(classify(error))
    error.__cause__ = None
    error.status_code = 401
    assert is_fit_to_be_shown(classify(error))


values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=10),
        st.sampled_from([429, 503, 200, "insufficient_quota", "40001", SECRET, "server_error"]),
        st.builds(Unequal),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from([*READ, "error", "retry-after", "Error", "Code"]), st.text(max_size=5)), inner, max_size=4),
    ),
    max_leaves=6,
)  # fmt: skip
bases = st.sampled_from(
    [
        Exception,
        TimeoutError,
        OSError,
        KeyError,
        ValueError,
        OddError,
        FaultError,
        BaseException,
        SystemExit,
    ]
)


@st.composite
def exceptions(draw, depth=2):
    base = draw(bases)
    said = draw(st.one_of(st.none(), st.text(max_size=40), st.just(raising(ZeroDivisionError))))
    members = {} if said is None else {"__str__": said if callable(said) else lambda _: said}
    members["__module__"] = draw(
        st.sampled_from(
            ["openai._x", "httpx", "psycopg.errors", "botocore", "mine", "google.genai"]
        )
    )
    name = draw(
        st.sampled_from(
            ["APIError", "ClientError", "HTTPStatusError", "Error", "OddError", "ReadTimeout"]
        )
    )
    kind = type(name, (base,), members)
    error = kind.__new__(kind)
    for attribute, value in draw(
        st.dictionaries(
            st.sampled_from([n for n in READ if n[0] != "_" and n != "args"]), values, max_size=4
        )
    ).items():
        if not (base is not Exception and attribute in {"errno", "code"}):
            setattr(error, attribute, value)
    if depth and draw(st.booleans()):
        error.__cause__ = draw(exceptions(depth - 1))
    if depth and draw(st.booleans()):
        error.__context__ = draw(exceptions(depth - 1))
    if depth and draw(st.integers(0, 3)) == 0:
        return BaseExceptionGroup("several", [error, draw(exceptions(depth - 1))])
    return error


@settings(max_examples=100, deadline=None)
@given(exceptions(), st.sampled_from(["input", "output"]))
def test_any_exception_becomes_a_fault_with_one_safe_line(error, validating):
    assert is_fit_to_be_shown(classify(error, validating=validating))


def test_classifying_imports_no_client():
    program = (
        "import sys; before = set(sys.modules); from seawall.decisions.classify import classify; classify(TimeoutError());"
        "roots = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(*sorted(roots - set(sys.stdlib_module_names) - {'seawall'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_a_fault_raised_from_a_clients_exception_keeps_what_its_response_said():
    class ThrottledError(Exception):
        status_code = 429
        request_id = "req_7"
        headers = {"Retry-After": "30", "x-should-retry": "false"}  # noqa: RUF012 - as clients do it

    def fault_of(**given):
        try:
            raise FaultError(FaultCode.RATE_LIMITED, "slow down", **given) from ThrottledError()
        except FaultError as error:
            return Classifier().classify(error)

    fault = fault_of()
    assert (fault.retry_after_seconds, fault.request_id, fault.final) == (30, "req_7", True)
    assert fault.status is None  # the code is the handler's own word: no rule may go by the other's
    fault = fault_of(status=503, retry_after_seconds=5, request_id="mine")
    assert (fault.status, fault.retry_after_seconds, fault.request_id) == (503, 5, "mine")


@pytest.mark.parametrize(
    ("code", "said"), [("RATE_LIMTED", "did you mean RATE_LIMITED"), ("zzz", "there are: RATE_")]
)
def test_a_misspelt_code_is_refused_where_it_is_written(code, said):
    with pytest.raises(ValueError, match=said):
        FaultError(code)


def test_a_classifier_for_everything_is_asked_last():
    own = Classifier()
    own.register(Exception)(lambda _: FaultCode.IO_ERROR)
    assert own.classify(OddError("nobody knows")).code is FaultCode.IO_ERROR
    assert own.classify(TimeoutError()).code is FaultCode.TIMEOUT


@pytest.mark.parametrize(
    "nonsense", [lambda _: 1 / 0, lambda _: "NOPE", lambda _: 429, lambda _: []]
)
def test_a_classifier_that_fails_is_named_in_the_message(nonsense):
    own = Classifier()
    own.register(OddError)(nonsense)
    fault = own.classify(OddError("odd"))
    assert fault.code is FaultCode.UNKNOWN
    assert fault.message.startswith("[classifier <lambda> failed: ")
    assert fault.message.endswith("OddError: odd")


def test_a_fault_without_a_message_takes_the_exceptions():
    own = Classifier()
    own.register(OddError)(lambda _: Fault(FaultCode.NOT_READY))
    assert own.classify(OddError("still scanning")).message == "OddError: still scanning"


def test_what_cannot_be_a_classifier_is_refused():
    async def later(error):
        return FaultCode.TIMEOUT

    def bare(error):
        return FaultCode.TIMEOUT

    own = Classifier()
    with pytest.raises(TypeError, match="later: a classifier cannot be async"):
        own.register(OddError)(later)
    with pytest.raises(TypeError, match="name the exceptions"):
        own.register(bare)


def test_our_own_configuration_errors_are_missing_configuration():
    assert classify(UnknownPolicyError("no policy named 'x'")).code is FaultCode.CONFIG_MISSING


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EAGAIN, FaultCode.IO_ERROR),
        (errno.EINTR, FaultCode.IO_ERROR),
        (errno.EIO, FaultCode.IO_ERROR),
        (errno.ENOSPC, FaultCode.RESOURCE_EXHAUSTED),
        (errno.EHOSTUNREACH, FaultCode.UNAVAILABLE),
        (errno.EEXIST, FaultCode.INVALID_INPUT),
        (errno.EROFS, FaultCode.UNKNOWN),
        (errno.EINVAL, FaultCode.UNKNOWN),
        (errno.ENAMETOOLONG, FaultCode.UNKNOWN),
    ],
)
def test_only_what_passes_is_temporary_trouble(number, code):
    assert classify(OSError(number, "words")).code is code


@pytest.mark.parametrize(
    "footnote",
    [
        '\n\nDebug source:\nGeneric {\n    store: "S3",\n}',
        "\n[SQL: UPDATE people SET name = ?]\n[parameters: ('Ann',)]\n(Background on this error at: u)",
        "\n(Background on this error at: https://sqlalche.me/e/21/e3q8)",
    ],
)
def test_what_a_client_adds_for_its_own_developers_is_no_part_of_the_line(footnote):
    assert classify(RuntimeError(f"it is away{footnote}")).message == "RuntimeError: it is away"
