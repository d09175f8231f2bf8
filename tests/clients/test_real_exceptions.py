"""What the real exceptions of real clients mean.

Each row raises an exception with the client itself, against an upstream on loopback or a real
database, and says what fault `classify` makes of it: read the table as documentation. How the
exceptions are raised stands in the `raise_*` modules next to this one.
"""

from dataclasses import dataclass

import pytest

from seawall.decisions.classify import classify
from seawall.faults import Fault, FaultCode
from tests.clients import raise_databases as db
from tests.clients import raise_plain as plain
from tests.clients.raise_http import (
    CIRCLE,
    MORE_THAN_A_SOCKET_HOLDS,
    NO_GZIP,
    by_aiohttp,
    by_aiohttp_to,
    by_httpx,
    by_httpx_async,
    by_httpx_reading_twice,
    by_httpx_to,
    by_httpx_with_a_full_pool,
    by_httpx_with_a_header_of_two_lines,
    by_httpx_without_a_free_file,
    by_requests,
    by_requests_to,
    by_requests_without_a_free_file,
    by_urllib,
)
from tests.clients.raise_llm import (
    anthropic_error,
    by_anthropic,
    by_google,
    by_google_async,
    by_openai,
    by_openai_async,
    by_openai_parse,
    by_openai_stream,
    by_openai_with_a_full_pool,
    google_error,
    openai_choice,
    openai_error,
    openai_without_a_key,
    quota_failure,
    retry_info,
)
from tests.clients.raise_storage import (
    REQUEST_ID,
    by_botocore,
    by_botocore_without_credentials,
    by_obstore_http,
    by_obstore_on_disk,
    by_obstore_s3,
    by_obstore_writing_twice,
    iam_error,
    json_error,
    s3_error,
)
from tests.clients.upstream import Answer, events
from tests.clients.world import Raise, World

RATE_LIMITED, QUOTA_EXHAUSTED = FaultCode.RATE_LIMITED, FaultCode.QUOTA_EXHAUSTED
TIMEOUT, UNAVAILABLE = FaultCode.TIMEOUT, FaultCode.UNAVAILABLE
UPSTREAM_ERROR, INVALID_RESPONSE = FaultCode.UPSTREAM_ERROR, FaultCode.INVALID_RESPONSE
REFUSED, INVALID_REQUEST = FaultCode.REFUSED, FaultCode.INVALID_REQUEST
UNAUTHORIZED, NOT_FOUND, NOT_READY = (
    FaultCode.UNAUTHORIZED,
    FaultCode.NOT_FOUND,
    FaultCode.NOT_READY,
)
CONFIG_MISSING, INVALID_INPUT = FaultCode.CONFIG_MISSING, FaultCode.INVALID_INPUT
IO_ERROR, RESOURCE_EXHAUSTED = FaultCode.IO_ERROR, FaultCode.RESOURCE_EXHAUSTED
CANCELLED, INTERNAL_ERROR, UNKNOWN = (
    FaultCode.CANCELLED,
    FaultCode.INTERNAL_ERROR,
    FaultCode.UNKNOWN,
)


@dataclass(frozen=True)
class Case:
    """A situation, the class that the client really raises in it, how, and the fault it becomes."""

    name: str
    kind: str
    raise_it: Raise
    code: FaultCode
    status: int | None = None
    ambiguous: bool = False
    retry_after: float | None = None
    request_id: str | None = None
    final: bool = False


OPENAI = [
    Case("openai: nobody gave it a key", "openai.OpenAIError", openai_without_a_key, CONFIG_MISSING),
    Case("openai: 429", "openai.RateLimitError", by_openai(openai_error(429, {"Retry-After": "20", "x-request-id": "req_1"}, code="rate_limit_exceeded")), RATE_LIMITED, status=429, retry_after=20, request_id="req_1"),
    Case("openai: 429 with milliseconds", "openai.RateLimitError", by_openai(openai_error(429, {"retry-after-ms": "1500"})), RATE_LIMITED, status=429, retry_after=1.5),
    Case("openai: 429 that says when its limits reset", "openai.RateLimitError", by_openai(openai_error(429, {"x-ratelimit-reset-requests": "12ms", "x-ratelimit-reset-tokens": "6m0s"})), RATE_LIMITED, status=429, retry_after=360),
    Case("openai: 429 with the code insufficient_quota", "openai.RateLimitError", by_openai(openai_error(429, {"x-request-id": "req_2"}, code="insufficient_quota")), QUOTA_EXHAUSTED, status=429, request_id="req_2"),
    Case("openai: 429 with the type insufficient_quota", "openai.RateLimitError", by_openai(openai_error(429, type="insufficient_quota")), QUOTA_EXHAUSTED, status=429),
    Case("openai: 429 with x-should-retry: false", "openai.RateLimitError", by_openai(openai_error(429, {"x-should-retry": "false"})), RATE_LIMITED, status=429, final=True),
    Case("openai: 500 with x-should-retry: false", "openai.InternalServerError", by_openai(openai_error(500, {"x-should-retry": "false"})), UPSTREAM_ERROR, status=500, final=True),
    Case("openai: 400", "openai.BadRequestError", by_openai(openai_error(400, type="invalid_request_error")), INVALID_REQUEST, status=400),
    Case("openai: 400 for too long a prompt", "openai.BadRequestError", by_openai(openai_error(400, code="context_length_exceeded")), INVALID_REQUEST, status=400),
    Case("openai: 400 of the content filter", "openai.BadRequestError", by_openai(openai_error(400, code="content_filter")), REFUSED, status=400),
    Case("openai: 400 of the content policy", "openai.BadRequestError", by_openai(openai_error(400, code="content_policy_violation")), REFUSED, status=400),
    Case("openai: 401", "openai.AuthenticationError", by_openai(openai_error(401, code="invalid_api_key")), UNAUTHORIZED, status=401),
    Case("openai: 403", "openai.PermissionDeniedError", by_openai(openai_error(403)), UNAUTHORIZED, status=403),
    Case("openai: 404 for a model that does not exist", "openai.NotFoundError", by_openai(openai_error(404, code="model_not_found")), INVALID_REQUEST, status=404),
    Case("openai: 408", "openai.APIStatusError", by_openai(openai_error(408)), TIMEOUT, status=408),
    Case("openai: 409", "openai.ConflictError", by_openai(openai_error(409)), NOT_READY, status=409),
    Case("openai: 422", "openai.UnprocessableEntityError", by_openai(openai_error(422)), INVALID_REQUEST, status=422),
    Case("openai: 500", "openai.InternalServerError", by_openai(openai_error(500, type="server_error")), UPSTREAM_ERROR, status=500),
    Case("openai: 502 from a gateway that speaks HTML", "openai.InternalServerError", by_openai(Answer(502, "<h1>Bad Gateway</h1>")), UPSTREAM_ERROR, status=502, ambiguous=True),
    Case("openai: 503", "openai.InternalServerError", by_openai(openai_error(503, {"Retry-After": "5"})), UPSTREAM_ERROR, status=503, retry_after=5),
    Case("openai: an error in mid-stream", "openai.APIError", by_openai_stream(events({"error": {"message": "no", "type": "server_error"}})), UPSTREAM_ERROR),
    Case("openai: a rate limit in mid-stream", "openai.APIError", by_openai_stream(events({"error": {"message": "no", "type": "tokens", "code": "rate_limit_exceeded"}})), RATE_LIMITED),
    Case("openai: an answer cut off by its length", "openai.LengthFinishReasonError", by_openai_parse(openai_choice("length")), INVALID_RESPONSE),
    Case("openai: an answer cut off by the content filter", "openai.ContentFilterFinishReasonError", by_openai_parse(openai_choice("content_filter")), REFUSED),
    Case("openai: a full pool of connections", "openai.APITimeoutError", by_openai_with_a_full_pool, RESOURCE_EXHAUSTED),
    Case("openai: no answer, async", "openai.APITimeoutError", by_openai_async("stalling"), TIMEOUT, ambiguous=True),
    Case("openai: a bad certificate, async", "openai.APIConnectionError", by_openai_async("distrusted"), UNAUTHORIZED),
    Case("openai: nobody listens, async", "openai.APIConnectionError", by_openai_async("refusing"), UNAVAILABLE),
    *(
        case
        for package in ("httpx", "httpx2")
        for case in (
            Case(f"openai over {package}: no answer", "openai.APITimeoutError", by_openai("stalling", package=package), TIMEOUT, ambiguous=True),
            Case(f"openai over {package}: no connection in time", "openai.APITimeoutError", by_openai("stalling_in_the_handshake", package=package), UNAVAILABLE),
            Case(f"openai over {package}: nobody listens", "openai.APIConnectionError", by_openai("refusing", package=package), UNAVAILABLE),
            Case(f"openai over {package}: a host that is not known", "openai.APIConnectionError", by_openai("nowhere", package=package), UNAVAILABLE),
            Case(f"openai over {package}: a bad certificate", "openai.APIConnectionError", by_openai("distrusted", package=package), UNAUTHORIZED),
            Case(f"openai over {package}: hung up", "openai.APIConnectionError", by_openai("hanging_up", package=package), UNAVAILABLE, ambiguous=True),
            Case(f"openai over {package}: 429", "openai.RateLimitError", by_openai(openai_error(429, {"Retry-After": "2", "x-request-id": "req_3"}), package=package), RATE_LIMITED, status=429, retry_after=2, request_id="req_3"),
        )
    ),
]  # fmt: skip

RESET_IN_A_MINUTE = {
    "Date": "Mon, 02 Nov 2026 10:00:00 GMT",
    "anthropic-ratelimit-requests-reset": "2026-11-02T10:01:00Z",
}
ANTHROPIC = [
    Case("anthropic: 429", "anthropic.RateLimitError", by_anthropic(anthropic_error(429, "rate_limit_error", {"retry-after": "7", "request-id": "req_011"})), RATE_LIMITED, status=429, retry_after=7, request_id="req_011"),
    Case("anthropic: 429 that says when its limits reset", "anthropic.RateLimitError", by_anthropic(anthropic_error(429, "rate_limit_error", RESET_IN_A_MINUTE)), RATE_LIMITED, status=429, retry_after=60),
    Case("anthropic: 429 at the spend limit", "anthropic.RateLimitError", by_anthropic(anthropic_error(429, "rate_limit_error", error_code="enforced_spend_limit_reached")), QUOTA_EXHAUSTED, status=429),
    Case("anthropic: 400", "anthropic.BadRequestError", by_anthropic(anthropic_error(400, "invalid_request_error")), INVALID_REQUEST, status=400),
    Case("anthropic: 400 for an organization on hold", "anthropic.BadRequestError", by_anthropic(anthropic_error(400, "invalid_request_error", error_code="organization_on_hold")), UNAUTHORIZED, status=400),
    Case("anthropic: 401", "anthropic.AuthenticationError", by_anthropic(anthropic_error(401, "authentication_error")), UNAUTHORIZED, status=401),
    Case("anthropic: 402", "anthropic.APIStatusError", by_anthropic(anthropic_error(402, "billing_error")), QUOTA_EXHAUSTED, status=402),
    Case("anthropic: 403 for the bill", "anthropic.PermissionDeniedError", by_anthropic(anthropic_error(403, "billing_error")), QUOTA_EXHAUSTED, status=403),
    Case("anthropic: 403", "anthropic.PermissionDeniedError", by_anthropic(anthropic_error(403, "permission_error")), UNAUTHORIZED, status=403),
    Case("anthropic: 404 for a model that does not exist", "anthropic.NotFoundError", by_anthropic(anthropic_error(404, "not_found_error")), INVALID_REQUEST, status=404),
    Case("anthropic: 408", "anthropic.RequestTimeoutError", by_anthropic(anthropic_error(408, "timeout_error")), TIMEOUT, status=408),
    Case("anthropic: 409", "anthropic.ConflictError", by_anthropic(anthropic_error(409, "conflict_error")), NOT_READY, status=409),
    Case("anthropic: 413", "anthropic.ContentTooLargeError", by_anthropic(anthropic_error(413, "request_too_large")), INVALID_REQUEST, status=413),
    Case("anthropic: 422", "anthropic.UnprocessableEntityError", by_anthropic(anthropic_error(422, "invalid_request_error")), INVALID_REQUEST, status=422),
    Case("anthropic: 500", "anthropic.InternalServerError", by_anthropic(anthropic_error(500, "api_error", {"request-id": "req_012"})), UPSTREAM_ERROR, status=500, request_id="req_012"),
    Case("anthropic: 500 with x-should-retry: false", "anthropic.InternalServerError", by_anthropic(anthropic_error(500, "api_error", {"x-should-retry": "false"})), UPSTREAM_ERROR, status=500, final=True),
    Case("anthropic: 504", "anthropic.GatewayTimeoutError", by_anthropic(anthropic_error(504, "timeout_error")), UPSTREAM_ERROR, status=504, ambiguous=True),
    Case("anthropic: 529", "anthropic.OverloadedError", by_anthropic(anthropic_error(529, "overloaded_error")), UNAVAILABLE, status=529),
    Case("anthropic: overloaded in mid-stream, with status 200", "anthropic.APIStatusError", by_anthropic(events({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, name="error"), stream=True), UNAVAILABLE, status=200),
    Case("anthropic: an error in mid-stream, with status 200", "anthropic.APIStatusError", by_anthropic(events({"type": "error", "error": {"type": "api_error", "message": "no"}}, name="error"), stream=True), UPSTREAM_ERROR, status=200),
    Case("anthropic: no answer", "anthropic.APITimeoutError", by_anthropic("stalling"), TIMEOUT, ambiguous=True),
    Case("anthropic: nobody listens", "anthropic.APIConnectionError", by_anthropic("refusing"), UNAVAILABLE),
    Case("anthropic: a bad certificate", "anthropic.APIConnectionError", by_anthropic("distrusted"), UNAUTHORIZED),
    Case("anthropic: reset", "anthropic.APIConnectionError", by_anthropic("resetting"), UNAVAILABLE, ambiguous=True),
]  # fmt: skip

GOOGLE = [
    Case("google: 429 whose body names the delay", "google.ClientError", by_google(google_error(429, "RESOURCE_EXHAUSTED", retry_info("53s"))), RATE_LIMITED, status=429, retry_after=53),
    Case("google: 429 for the quota of a minute", "google.ClientError", by_google(google_error(429, "RESOURCE_EXHAUSTED", quota_failure("GenerateRequestsPerMinutePerProject"), retry_info("3.5s"))), RATE_LIMITED, status=429, retry_after=3.5),
    Case("google: 429 for the quota of a day", "google.ClientError", by_google(google_error(429, "RESOURCE_EXHAUSTED", quota_failure("GenerateRequestsPerDayPerProjectPerModel-FreeTier"))), QUOTA_EXHAUSTED, status=429),
    Case("google over httpx: 429 for the quota of a day", "google.ClientError", by_google(google_error(429, "RESOURCE_EXHAUSTED", quota_failure("GenerateRequestsPerDay")), package="httpx"), QUOTA_EXHAUSTED, status=429),
    Case("google over aiohttp: 429 whose body names the delay", "google.ClientError", by_google_async(google_error(429, "RESOURCE_EXHAUSTED", retry_info("53s"))), RATE_LIMITED, status=429, retry_after=53),
    Case("google: 400", "google.ClientError", by_google(google_error(400, "INVALID_ARGUMENT")), INVALID_REQUEST, status=400),
    Case("google: 403", "google.ClientError", by_google(google_error(403, "PERMISSION_DENIED")), UNAUTHORIZED, status=403),
    Case("google: 500", "google.ServerError", by_google(google_error(500, "INTERNAL")), UPSTREAM_ERROR, status=500),
    Case("google: 503", "google.ServerError", by_google(google_error(503, "UNAVAILABLE")), UPSTREAM_ERROR, status=503),
    Case("google: no answer", "httpx2.ReadTimeout", by_google("stalling"), TIMEOUT, ambiguous=True),
]  # fmt: skip


def httpx_cases(package: str) -> list[Case]:
    """Both generations fail alike, and are no subclasses of one another."""

    def case(name: str, kind: str, raise_it: Raise, code: FaultCode, **facts: object) -> Case:
        return Case(f"{package}: {name}", f"{package}.{kind}", raise_it, code, **facts)

    def by(place: Answer | str, **options: bytes) -> Raise:
        return by_httpx(package, place, **options)

    return [
        case("nobody listens", "ConnectError", by("refusing"), UNAVAILABLE),
        case("a host that is not known", "ConnectError", by("nowhere"), UNAVAILABLE),
        case("a bad certificate", "ConnectError", by("distrusted"), UNAUTHORIZED),
        case("nobody listens, async", "ConnectError", by_httpx_async(package, "refusing"), UNAVAILABLE),
        case("a bad certificate, async", "ConnectError", by_httpx_async(package, "distrusted"), UNAUTHORIZED),
        case("no connection in time", "ConnectTimeout", by("stalling_in_the_handshake"), UNAVAILABLE),
        case("no answer", "ReadTimeout", by("stalling"), TIMEOUT, ambiguous=True),
        case("no answer, async", "ReadTimeout", by_httpx_async(package, "stalling"), TIMEOUT, ambiguous=True),
        case("half an answer, then silence", "ReadTimeout", by("stalling_in_the_body"), TIMEOUT, ambiguous=True),
        case("a request that nobody reads", "WriteTimeout", by("deaf", content=MORE_THAN_A_SOCKET_HOLDS), TIMEOUT, ambiguous=True),
        case("reset", "ReadError", by("resetting"), UNAVAILABLE, ambiguous=True),
        case("hung up", "RemoteProtocolError", by("hanging_up"), UNAVAILABLE, ambiguous=True),
        case("hung up half-way", "RemoteProtocolError", by("cutting_off"), UNAVAILABLE, ambiguous=True),
        case("a full pool of connections", "PoolTimeout", by_httpx_with_a_full_pool(package), RESOURCE_EXHAUSTED),
        case("no file left for a socket", "ConnectError", by_httpx_without_a_free_file(package), RESOURCE_EXHAUSTED),
        case("402", "HTTPStatusError", by(Answer(402)), QUOTA_EXHAUSTED, status=402),
        case("404", "HTTPStatusError", by(Answer(404)), NOT_FOUND, status=404),
        case("408", "HTTPStatusError", by(Answer(408)), TIMEOUT, status=408),
        case("409", "HTTPStatusError", by(Answer(409)), NOT_READY, status=409),
        case("423", "HTTPStatusError", by(Answer(423)), NOT_READY, status=423),
        case("425", "HTTPStatusError", by(Answer(425)), NOT_READY, status=425),
        case("429", "HTTPStatusError", by(Answer(429, headers={"Retry-After": "30", "X-Request-Id": "r-1"})), RATE_LIMITED, status=429, retry_after=30, request_id="r-1"),
        case("429 until a date", "HTTPStatusError", by(Answer(429, headers={"Date": "Mon, 02 Nov 2026 10:00:00 GMT", "Retry-After": "Mon, 02 Nov 2026 10:02:00 GMT"})), RATE_LIMITED, status=429, retry_after=120),
        case("500", "HTTPStatusError", by(Answer(500)), UPSTREAM_ERROR, status=500),
        case("503 for a while", "HTTPStatusError", by(Answer(503, headers={"Retry-After": "1.5"})), UPSTREAM_ERROR, status=503, retry_after=1.5),
        case("504", "HTTPStatusError", by(Answer(504)), UPSTREAM_ERROR, status=504, ambiguous=True),
        case("529", "HTTPStatusError", by(Answer(529)), UNAVAILABLE, status=529),
        case("an error in a body with another story", "HTTPStatusError", by(Answer(400, {"error": {"code": "content_filter"}})), REFUSED, status=400),
        case("no URL", "InvalidURL", by_httpx_to(package, "http://127.0.0.1:port"), INVALID_REQUEST),
        case("a scheme it does not speak", "UnsupportedProtocol", by_httpx_to(package, "ftp://127.0.0.1"), INVALID_REQUEST),
        case("a header that cannot be sent", "LocalProtocolError", by_httpx_with_a_header_of_two_lines(package), INVALID_REQUEST),
        case("redirects without end", "TooManyRedirects", by(CIRCLE), INVALID_REQUEST),
        case("a body that is not what it says", "DecodingError", by(NO_GZIP), INVALID_RESPONSE),
        case("a stream read twice", "StreamError", by_httpx_reading_twice(package), INTERNAL_ERROR),
    ]  # fmt: skip


HTTPX = [*httpx_cases("httpx"), *httpx_cases("httpx2")]

REQUESTS = [
    Case("requests: nobody listens", "requests.ConnectionError", by_requests("refusing"), UNAVAILABLE),
    Case("requests: a host that is not known", "requests.ConnectionError", by_requests("nowhere"), UNAVAILABLE),
    Case("requests: a bad certificate", "requests.SSLError", by_requests("distrusted"), UNAUTHORIZED),
    Case("requests: no answer", "requests.Timeout", by_requests("stalling"), TIMEOUT, ambiguous=True),
    Case("requests: half an answer, then silence", "requests.ConnectionError", by_requests("stalling_in_the_body"), TIMEOUT, ambiguous=True),
    Case("requests: reset", "requests.ConnectionError", by_requests("resetting"), UNAVAILABLE, ambiguous=True),
    Case("requests: hung up", "requests.ConnectionError", by_requests("hanging_up"), UNAVAILABLE, ambiguous=True),
    Case("requests: hung up half-way", "requests.ChunkedEncodingError", by_requests("cutting_off"), UNAVAILABLE, ambiguous=True),
    Case("requests: no file left for a socket", "requests.ConnectionError", by_requests_without_a_free_file, RESOURCE_EXHAUSTED),
    Case("requests: 429, whose response is falsy", "requests.HTTPError", by_requests(Answer(429, headers={"Retry-After": "12", "X-Request-Id": "r-2"})), RATE_LIMITED, status=429, retry_after=12, request_id="r-2"),
    Case("requests: 404", "requests.HTTPError", by_requests(Answer(404)), NOT_FOUND, status=404),
    Case("requests: 500", "requests.HTTPError", by_requests(Answer(500)), UPSTREAM_ERROR, status=500),
    Case("requests: no JSON", "requests.JSONDecodeError", by_requests(Answer(200, "<html>"), json=True), INVALID_RESPONSE),
    Case("requests: a body that is not what it says", "requests.ContentDecodingError", by_requests(NO_GZIP), INVALID_RESPONSE),
    Case("requests: redirects without end", "requests.TooManyRedirects", by_requests(CIRCLE), INVALID_REQUEST, status=302),
    Case("requests: no URL", "requests.MissingSchema", by_requests_to("127.0.0.1"), INVALID_REQUEST),
]  # fmt: skip

URLLIB = [
    Case("urllib: nobody listens", "urllib.URLError", by_urllib("refusing"), UNAVAILABLE),
    Case("urllib: a host that is not known", "urllib.URLError", by_urllib("nowhere"), UNAVAILABLE),
    Case("urllib: a bad certificate", "urllib.URLError", by_urllib("distrusted"), UNAUTHORIZED),
    Case("urllib: no answer", "TimeoutError", by_urllib("stalling"), TIMEOUT, ambiguous=True),
    Case("urllib: reset", "ConnectionResetError", by_urllib("resetting"), UNAVAILABLE, ambiguous=True),
    Case("urllib: hung up", "http.RemoteDisconnected", by_urllib("hanging_up"), UNAVAILABLE, ambiguous=True),
    Case("urllib: hung up half-way", "http.IncompleteRead", by_urllib("cutting_off"), UNAVAILABLE, ambiguous=True),
    Case("urllib: 429", "urllib.HTTPError", by_urllib(Answer(429, headers={"Retry-After": "9"})), RATE_LIMITED, status=429, retry_after=9),
    Case("urllib: 503", "urllib.HTTPError", by_urllib(Answer(503)), UPSTREAM_ERROR, status=503),
]  # fmt: skip

AIOHTTP = [
    Case("aiohttp: nobody listens", "aiohttp.ClientConnectorError", by_aiohttp("refusing"), UNAVAILABLE),
    Case("aiohttp: a host that is not known", "aiohttp.ClientConnectorDNSError", by_aiohttp("nowhere"), UNAVAILABLE),
    Case("aiohttp: a bad certificate", "aiohttp.ClientConnectorCertificateError", by_aiohttp("distrusted"), UNAUTHORIZED),
    Case("aiohttp: no answer in the total time", "TimeoutError", by_aiohttp("stalling"), TIMEOUT, ambiguous=True),
    Case("aiohttp: no answer", "aiohttp.SocketTimeoutError", by_aiohttp("stalling", timeout="sock_read"), TIMEOUT, ambiguous=True),
    Case("aiohttp: no connection in time", "aiohttp.ConnectionTimeoutError", by_aiohttp("stalling_in_the_handshake", timeout="sock_connect"), UNAVAILABLE),
    Case("aiohttp: reset", "aiohttp.ClientOSError", by_aiohttp("resetting"), UNAVAILABLE, ambiguous=True),
    Case("aiohttp: hung up", "aiohttp.ServerDisconnectedError", by_aiohttp("hanging_up"), UNAVAILABLE, ambiguous=True),
    Case("aiohttp: hung up half-way", "aiohttp.ClientPayloadError", by_aiohttp("cutting_off"), UNAVAILABLE, ambiguous=True),
    Case("aiohttp: 429", "aiohttp.ClientResponseError", by_aiohttp(Answer(429, headers={"Retry-After": "4", "X-Request-Id": "r-3"})), RATE_LIMITED, status=429, retry_after=4, request_id="r-3"),
    Case("aiohttp: 404", "aiohttp.ClientResponseError", by_aiohttp(Answer(404)), NOT_FOUND, status=404),
    Case("aiohttp: 500", "aiohttp.ClientResponseError", by_aiohttp(Answer(500)), UPSTREAM_ERROR, status=500),
    Case("aiohttp: no JSON", "aiohttp.ContentTypeError", by_aiohttp(Answer(200, "<html>"), json=True), INVALID_RESPONSE, status=200),
    Case("aiohttp: redirects without end", "aiohttp.TooManyRedirects", by_aiohttp(CIRCLE), INVALID_REQUEST),
    Case("aiohttp: no URL", "aiohttp.InvalidURL", by_aiohttp_to("http://"), INVALID_REQUEST),
]  # fmt: skip


def s3(place: Answer | str, operation: str = "get_object", **parameters: object) -> Raise:
    return by_botocore(operation, place, Bucket="b", Key="k", **parameters)


STORES = [
    Case("botocore: SlowDown", "botocore.ClientError", s3(s3_error(503, "SlowDown", {"x-amz-retry-after": "2500"})), RATE_LIMITED, status=503, retry_after=2.5, request_id=REQUEST_ID),
    Case("botocore: Throttling", "botocore.ClientError", by_botocore("list_users", iam_error(400, "Throttling"), service="iam"), RATE_LIMITED, status=400, request_id=REQUEST_ID),
    Case("botocore: ThrottlingException", "botocore.ClientError", by_botocore("list_tables", json_error(400, "ThrottlingException"), service="dynamodb"), RATE_LIMITED, status=400, request_id=REQUEST_ID),
    Case("botocore: TooManyRequestsException", "botocore.ClientError", by_botocore("list_tables", json_error(429, "TooManyRequestsException"), service="dynamodb"), RATE_LIMITED, status=429, request_id=REQUEST_ID),
    Case("botocore: RequestLimitExceeded", "botocore.ClientError", by_botocore("list_tables", json_error(400, "RequestLimitExceeded"), service="dynamodb"), RATE_LIMITED, status=400, request_id=REQUEST_ID),
    Case("botocore: ProvisionedThroughputExceededException", "botocore.ClientError", by_botocore("list_tables", json_error(400, "ProvisionedThroughputExceededException"), service="dynamodb"), RATE_LIMITED, status=400, request_id=REQUEST_ID),
    Case("botocore: RequestTimeout, which is a 400", "botocore.ClientError", s3(s3_error(400, "RequestTimeout"), "put_object", Body=b"x"), TIMEOUT, status=400, request_id=REQUEST_ID),
    Case("botocore: InternalError", "botocore.ClientError", s3(s3_error(500, "InternalError")), UPSTREAM_ERROR, status=500, request_id=REQUEST_ID),
    Case("botocore: 502 without a code", "botocore.ClientError", s3(Answer(502), "head_object"), UPSTREAM_ERROR, status=502, ambiguous=True),
    Case("botocore: ServiceUnavailable", "botocore.ClientError", s3(s3_error(503, "ServiceUnavailable")), UNAVAILABLE, status=503, request_id=REQUEST_ID),
    Case("botocore: 504 without a code", "botocore.ClientError", s3(Answer(504), "head_object"), UPSTREAM_ERROR, status=504, ambiguous=True),
    Case("botocore: an error in a body with status 200, which it makes a 500", "botocore.ClientError", s3(s3_error(200, "SlowDown"), "copy_object", CopySource="b/other"), RATE_LIMITED, status=500, request_id=REQUEST_ID),
    Case("botocore: NoSuchKey", "botocore.NoSuchKey", s3(s3_error(404, "NoSuchKey")), NOT_FOUND, status=404, request_id=REQUEST_ID),
    Case("botocore: NoSuchBucket", "botocore.NoSuchBucket", s3(s3_error(404, "NoSuchBucket")), NOT_FOUND, status=404, request_id=REQUEST_ID),
    Case("botocore: 404 of HeadObject, which has no body", "botocore.ClientError", s3(s3_error(404, ""), "head_object"), NOT_FOUND, status=404, request_id=REQUEST_ID),
    Case("botocore: ExpiredToken", "botocore.ClientError", s3(s3_error(400, "ExpiredToken")), UNAUTHORIZED, status=400, request_id=REQUEST_ID),
    Case("botocore: InvalidAccessKeyId", "botocore.ClientError", s3(s3_error(403, "InvalidAccessKeyId")), UNAUTHORIZED, status=403, request_id=REQUEST_ID),
    Case("botocore: AccessDenied", "botocore.ClientError", s3(s3_error(403, "AccessDenied")), UNAUTHORIZED, status=403, request_id=REQUEST_ID),
    Case("botocore: nobody listens", "botocore.EndpointConnectionError", s3("refusing"), UNAVAILABLE),
    Case("botocore: no answer", "botocore.ReadTimeoutError", s3("stalling"), TIMEOUT, ambiguous=True),
    Case("botocore: hung up", "botocore.ConnectionClosedError", s3("hanging_up"), UNAVAILABLE, ambiguous=True),
    Case("botocore: reset", "botocore.ConnectionClosedError", s3("resetting"), UNAVAILABLE, ambiguous=True),
    Case("botocore: hung up half-way", "botocore.ResponseStreamingError", s3("cutting_off", read=True), UNAVAILABLE, ambiguous=True),
    Case("botocore: half an object, then silence", "botocore.ReadTimeoutError", s3("stalling_in_the_body", read=True), TIMEOUT, ambiguous=True),
    Case("botocore: a bad certificate", "botocore.SSLError", s3("distrusted"), UNAUTHORIZED),
    Case("botocore: no credentials", "botocore.NoCredentialsError", by_botocore_without_credentials, CONFIG_MISSING),
    Case("botocore: a parameter that cannot be", "botocore.ParamValidationError", by_botocore("get_object", "refusing", Bucket="b"), INVALID_REQUEST),
    Case("obstore: no such file", "FileNotFoundError", by_obstore_on_disk, NOT_FOUND),
    Case("obstore: there already", "obstore.AlreadyExistsError", by_obstore_writing_twice, INVALID_INPUT),
    Case("obstore: 404", "FileNotFoundError", by_obstore_http(Answer(404)), NOT_FOUND),
    Case("obstore: 401", "obstore.UnauthenticatedError", by_obstore_http(Answer(401)), UNAUTHORIZED),
    Case("obstore: 403", "obstore.PermissionDeniedError", by_obstore_s3(s3_error(403, "AccessDenied")), UNAUTHORIZED),
    Case("obstore: 429", "obstore.GenericError", by_obstore_s3(s3_error(429, "TooManyRequests")), RATE_LIMITED),
    Case("obstore: 500", "obstore.GenericError", by_obstore_s3(s3_error(500, "InternalError")), UPSTREAM_ERROR),
    Case("obstore: nobody listens", "obstore.GenericError", by_obstore_http("refusing"), UNAVAILABLE),
    Case("obstore: no answer", "obstore.GenericError", by_obstore_http("stalling"), TIMEOUT, ambiguous=True),
    Case("obstore: half an object, then silence", "obstore.GenericError", by_obstore_http("stalling_in_the_body"), TIMEOUT, ambiguous=True),
    Case("obstore: a host that is not known", "obstore.GenericError", by_obstore_http("nowhere"), UNAVAILABLE),
    Case("obstore: hung up", "obstore.GenericError", by_obstore_http("hanging_up"), UNAVAILABLE, ambiguous=True),
    Case("obstore: reset", "obstore.GenericError", by_obstore_http("resetting"), UNAVAILABLE, ambiguous=True),
    Case("obstore: hung up half-way", "obstore.GenericError", by_obstore_http("cutting_off"), UNAVAILABLE, ambiguous=True),
    Case("obstore: a bad certificate", "obstore.GenericError", by_obstore_http("distrusted"), UNAUTHORIZED),
]  # fmt: skip

POSTGRES = [
    Case("psycopg: 40001 serialization failure", "psycopg.SerializationFailure", db.by_psycopg(db.serialization_failure), IO_ERROR),
    Case("psycopg: 40P01 deadlock", "psycopg.DeadlockDetected", db.by_psycopg(db.deadlock), IO_ERROR),
    Case("psycopg: 55P03 lock not available", "psycopg.LockNotAvailable", db.by_psycopg(db.lock_not_available), IO_ERROR),
    Case("psycopg: 57014 statement timeout", "psycopg.QueryCanceled", db.by_psycopg(db.statement_timeout), TIMEOUT),
    Case("psycopg: 25P03 idle in a transaction", "psycopg.IdleInTransactionSessionTimeout", db.by_psycopg(db.idle_in_transaction), TIMEOUT),
    Case("psycopg: 57P01 terminated by an administrator", "psycopg.AdminShutdown", db.by_psycopg(db.terminated), UNAVAILABLE),
    Case("psycopg: a connection that was lost before", "psycopg.OperationalError", db.by_psycopg(db.used_after_it_was_lost), UNAVAILABLE, ambiguous=True),
    Case("psycopg: 25P02, the echo of a lock not available", "psycopg.InFailedSqlTransaction", db.echo_of("SELECT * FROM t FOR UPDATE NOWAIT"), IO_ERROR),
    Case("psycopg: 25P02, the echo of bad data", "psycopg.InFailedSqlTransaction", db.echo_of("SELECT 'x'::int"), INVALID_INPUT),
    Case("psycopg: 25P02, the echo of a bug", "psycopg.InFailedSqlTransaction", db.echo_of("SELECT * FROM nowhere"), INTERNAL_ERROR),
    Case("psycopg: 25P02, the echo of nobody knows what", "psycopg.InFailedSqlTransaction", db.by_psycopg(db.echo_alone), UNKNOWN),
    Case("psycopg: 25006 read-only after a failover", "psycopg.ReadOnlySqlTransaction", db.by_psycopg(db.read_only), UNAVAILABLE),
    Case("psycopg: 23505 unique violation", "psycopg.UniqueViolation", db.by_psycopg_saying("INSERT INTO t VALUES (1, 1)"), INVALID_INPUT),
    Case("psycopg: 22P02 not a number", "psycopg.InvalidTextRepresentation", db.by_psycopg_saying("SELECT 'x'::int"), INVALID_INPUT),
    Case("psycopg: 42P01 no such table", "psycopg.UndefinedTable", db.by_psycopg_saying("SELECT * FROM nowhere"), INTERNAL_ERROR),
    *(
        Case(f"psycopg: {state} {words}", kind, db.by_psycopg_raising(state), code, ambiguous=ambiguous)
        for state, words, kind, code, ambiguous in (
            ("40003", "completion unknown", "psycopg.StatementCompletionUnknown", UNAVAILABLE, True),
            ("08007", "transaction resolution unknown", "psycopg.TransactionResolutionUnknown", UNAVAILABLE, True),
            ("08006", "connection failure", "psycopg.ConnectionFailure", UNAVAILABLE, False),
            ("53100", "disk full", "psycopg.DiskFull", RESOURCE_EXHAUSTED, False),
            ("53200", "out of memory", "psycopg.OutOfMemory", RESOURCE_EXHAUSTED, False),
            ("53300", "too many connections", "psycopg.TooManyConnections", UNAVAILABLE, False),
            ("57P02", "crash shutdown", "psycopg.CrashShutdown", UNAVAILABLE, False),
            ("57P03", "cannot connect now", "psycopg.CannotConnectNow", UNAVAILABLE, False),
        )
    ),
    Case("psycopg: a wrong password", "psycopg.OperationalError", db.by_psycopg_connecting(user="locked_out", password="wrong"), UNAUTHORIZED),
    Case("psycopg: no password", "psycopg.OperationalError", db.by_psycopg_connecting(user="locked_out"), UNAUTHORIZED),
    Case("psycopg: no such role", "psycopg.OperationalError", db.by_psycopg_connecting(user="stranger"), UNAUTHORIZED),
    Case("psycopg: no such database", "psycopg.OperationalError", db.by_psycopg_connecting(dbname="nowhere"), CONFIG_MISSING),
    Case("psycopg: too many connections for a role", "psycopg.OperationalError", db.too_many_connections, UNAVAILABLE),
    Case("psycopg: nobody listens", "psycopg.OperationalError", db.by_psycopg_connecting_to("refusing"), UNAVAILABLE),
    Case("psycopg: a host that is not known", "psycopg.OperationalError", db.by_psycopg_connecting_to("nowhere"), UNAVAILABLE),
    Case("psycopg_pool: no connection is free", "psycopg_pool.PoolTimeout", db.by_psycopg_pool_that_is_empty, RESOURCE_EXHAUSTED),
    Case("psycopg_pool: too many wait for one", "psycopg_pool.TooManyRequests", db.by_psycopg_pool_with_a_queue, RESOURCE_EXHAUSTED),
]  # fmt: skip


def sqlite_cases(client: str) -> list[Case]:
    """Both clients of SQLite speak of its result codes, under different names."""

    def case(name: str, kinds: dict[str, str], script: db.SqliteScript, code: FaultCode) -> Case:
        return Case(
            f"{client}: {name}", f"{client}.{kinds[client]}", db.by_sqlite(client, script), code
        )

    return [
        case("BUSY", {"sqlite3": "OperationalError", "apsw": "BusyError"}, db.busy, IO_ERROR),
        case("BUSY_SNAPSHOT", {"sqlite3": "OperationalError", "apsw": "BusyError"}, db.busy_snapshot, IO_ERROR),
        case("LOCKED", {"sqlite3": "OperationalError", "apsw": "LockedError"}, db.locked, IO_ERROR),
        case("FULL", {"sqlite3": "OperationalError", "apsw": "FullError"}, db.full, RESOURCE_EXHAUSTED),
        case("IOERR", {"sqlite3": "OperationalError", "apsw": "IOError"}, db.io_error, RESOURCE_EXHAUSTED),
        case("CORRUPT", {"sqlite3": "DatabaseError", "apsw": "CorruptError"}, db.corrupt, INVALID_INPUT),
        case("NOTADB", {"sqlite3": "DatabaseError", "apsw": "NotADBError"}, db.not_a_database, INVALID_INPUT),
        case("CANTOPEN", {"sqlite3": "OperationalError", "apsw": "CantOpenError"}, db.cannot_open, CONFIG_MISSING),
        case("CONSTRAINT", {"sqlite3": "IntegrityError", "apsw": "ConstraintError"}, db.constraint, INVALID_INPUT),
        case("READONLY", {"sqlite3": "OperationalError", "apsw": "ReadOnlyError"}, db.query_only, UNAUTHORIZED),
        case("SQL error", {"sqlite3": "OperationalError", "apsw": "SQLError"}, db.sql_error, INTERNAL_ERROR),
    ]  # fmt: skip


SQLITE = [*sqlite_cases("sqlite3"), *sqlite_cases("apsw")]

PLAIN = [
    Case("json: cut off", "json.JSONDecodeError", plain.broken_json, INVALID_RESPONSE),
    Case("text that is no UTF-8", "UnicodeDecodeError", plain.broken_text, INVALID_RESPONSE),
    Case("pydantic: a field of another type", "pydantic_core.ValidationError", plain.broken_model, INVALID_RESPONSE),
    Case("pydantic: JSON that is cut off", "pydantic_core.ValidationError", plain.broken_model_json, INVALID_RESPONSE),
    Case("jsonschema: a field of another type", "jsonschema.ValidationError", plain.broken_schema_instance, INVALID_RESPONSE),
    Case("jsonschema: a schema that is none", "jsonschema.SchemaError", plain.broken_schema, INTERNAL_ERROR),
    Case("socket: a host that is not known", "socket.gaierror", plain.unknown_host, UNAVAILABLE),
    Case("socket: nobody listens", "ConnectionRefusedError", plain.refused, UNAVAILABLE),
    Case("socket: reset", "ConnectionResetError", plain.reset, UNAVAILABLE, ambiguous=True),
    Case("socket: no answer", "TimeoutError", plain.socket_timeout, TIMEOUT, ambiguous=True),
    Case("asyncio: out of time", "TimeoutError", plain.asyncio_timeout, TIMEOUT, ambiguous=True),
    Case("subprocess: out of time", "subprocess.TimeoutExpired", plain.process_timeout, TIMEOUT, ambiguous=True),
    Case("asyncio: cancelled", "asyncio.CancelledError", plain.cancelled, CANCELLED),
    Case("Ctrl-C", "KeyboardInterrupt", plain.interrupted, CANCELLED),
    Case("a full disk", "OSError", plain.disk_full, RESOURCE_EXHAUSTED),
    Case("too many open files", "OSError", plain.too_many_files, RESOURCE_EXHAUSTED),
    Case("no memory", "MemoryError", plain.no_memory, RESOURCE_EXHAUSTED),
    Case("a file that is not there", "FileNotFoundError", plain.missing_file, NOT_FOUND),
    Case("a folder where a file should be", "IsADirectoryError", plain.folder_for_a_file, INVALID_INPUT),
    Case("a bug", "KeyError", plain.bug, INTERNAL_ERROR),
]  # fmt: skip

CASES = [
    *OPENAI, *ANTHROPIC, *GOOGLE, *HTTPX, *REQUESTS, *URLLIB, *AIOHTTP, *STORES, *POSTGRES, *SQLITE, *PLAIN,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_real_exception_becomes_the_fault_that_the_table_says(case: Case, world: World):
    fault = classify(raised_by(case.raise_it, world))

    assert case.kind in fault.kinds
    assert facts(fault) == {
        "code": case.code,
        "status": case.status,
        "ambiguous": case.ambiguous,
        "retry_after": case.retry_after,
        "request_id": case.request_id,
        "final": case.final,
    }


def test_no_two_cases_have_the_same_name():
    assert len({case.name for case in CASES}) == len(CASES)


def facts(fault: Fault) -> dict[str, object]:
    return {
        "code": fault.code,
        "status": fault.status,
        "ambiguous": fault.ambiguous,
        "retry_after": fault.retry_after_seconds,
        "request_id": fault.request_id,
        "final": fault.final,
    }


def raised_by(raise_it: Raise, world: World) -> BaseException:
    try:
        raise_it(world)
    except BaseException as error:
        return error
    pytest.fail("nothing was raised")
