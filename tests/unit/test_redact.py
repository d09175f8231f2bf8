"""What may be said in public: one line, no secret, no server path, bounded; and its fingerprint."""

import ipaddress
import unicodedata
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seawall import redact
from seawall.redact import LONGEST_MESSAGE, LONGEST_READ, fingerprint, one_line, redacted, shape

LOWER = "abcdefghijklmnopqrstuvwxyz"
ALNUM = LOWER + LOWER.upper() + "0123456789"
quick = settings(max_examples=150, deadline=None)

OPENAI = "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12Mn34Op56Qr78St90T3BlbkFJ"
ANTHROPIC = "sk-ant-api03-R2D2c3poR2D2c3po-AbCdEf_GhIjKlMnOpQrStUv-AA"
AWS_ID = "AKIAIOSFODNN7EXAMPLE"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
GOOGLE = "AIzaSyA-1234567890abcdefghijklmnopqrstu"
GITHUB = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
GITHUB_FINE = "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789"
# Spelt in two steps: a scanner that guards pushes would stop at the whole literal.
SLACK = "XOXB-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx".replace("XOXB", "xoxb")
HF = "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"
STRIPE = "SK_live_51H8abcDEFghiJKLmnoPQRst".replace("SK", "sk")
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
TELEGRAM = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"
AZURE = "0123456789abcdef0123456789abcdef"
BASIC = "dXNlcjpwYXNzd29yZA=="
PEM_LINES = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"]
PEM_BODY = "\n".join(PEM_LINES)

SECRETS = [
    # (the secret, the message it stands in)
    (OPENAI, f"Incorrect API key provided: {OPENAI}. You can find your key in your account."),
    (OPENAI, f"Error code: 401 - {{'error': {{'message': 'Incorrect API key provided: {OPENAI}.'}}}}"),
    ("foobarbaz", "Incorrect API key provided: foobarbaz"),
    ("hunter2hunter2", "API key: hunter2hunter2"),
    ("hunter2hunter2", "The api key you sent is wrong: hunter2hunter2"),
    (ANTHROPIC, f"invalid x-api-key {ANTHROPIC}"),
    (ANTHROPIC, f"headers={{'x-api-key': '{ANTHROPIC}', 'accept': 'text/html'}}"),
    (AWS_ID, f"The AWS Access Key Id {AWS_ID} does not exist in our records"),
    (AWS_ID, f"<Code>InvalidAccessKeyId</Code><AWSAccessKeyId>{AWS_ID}</AWSAccessKeyId>"),
    (AWS_SECRET, f"aws_secret_access_key={AWS_SECRET}"),
    (AWS_SECRET, f"cannot sign with {AWS_SECRET} today"),
    ("IQoJb3JpZ2luX2VjEXAMPLE", "AWS_SESSION_TOKEN=IQoJb3JpZ2luX2VjEXAMPLE failed"),
    ("0b9c7a1e", "Authorization: AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20261116, Signature=0b9c7a1e"),
    (GOOGLE, f"API key not valid: {GOOGLE}. Please pass a valid API key."),
    (GOOGLE, f"POST https://generativelanguage.googleapis.com/v1/models?key={GOOGLE} failed"),
    (GOOGLE, f"got {GOOGLE}"),
    ("ya29.a0AfH6SMBexample", "oauth: ya29.a0AfH6SMBexample expired"),
    (GITHUB, f"remote: Invalid token {GITHUB}"),
    (GITHUB, f"https://{GITHUB}@github.com/a/b.git not found"),
    (GITHUB_FINE, f"bad credentials ({GITHUB_FINE})"),
    (SLACK, f"slack said invalid_auth for {SLACK}"),
    ("XXXXabcdXXXXabcdXXXXabcd", "https://hooks.slack.com/services/T0001/B0001/XXXXabcdXXXXabcdXXXXabcd: 404"),
    (HF, f"401 for {HF}"),
    (STRIPE, f"No such charge; a key {STRIPE} was used"),
    ("whsec_abcDEF123456abcDEF", "signature check with whsec_abcDEF123456abcDEF failed"),
    (JWT, f"jwt {JWT} expired"),
    (JWT, f"Authorization: Bearer {JWT}"),
    ("abcdefghijkl", "{'Authorization': 'Bearer abcdefghijkl', 'Accept': '*/*'}"),
    ("abcdefghijkl", '{"authorization": "Token abcdefghijkl", "status": 401}'),
    ("abcdefghijkl", "Authorization: ApiKey abcdefghijkl"),
    ("abcdefghijkl", "Proxy-Authorization=Bot abcdefghijkl"),
    ("c29tZXRoaW5n", "Headers([('authorization', 'Negotiate c29tZXRoaW5n')])"),
    (BASIC, f"got Basic {BASIC} from the client"),
    ("dXNlcjpwYXNz", "sent basic dXNlcjpwYXNz"),
    ("abc.def-ghi_jkl", "bearer abc.def-ghi_jkl was refused"),
    ("s3cr3tvalue", '{"body": "{\\"password\\": \\"s3cr3tvalue\\", \\"user\\": 1}"}'),
    ("s3cr3tvalue", '"{\\\\\\"api_key\\\\\\":\\\\\\"s3cr3tvalue\\\\\\"}"'),
    ("cdefghijkl", '{"password": "ab\\"cdefghijkl", "n": 1}'),
    ("cdefghijkl", "{'password': 'ab\\'cdefghijkl', 'n': 1}"),
    ("correct horse battery", "passphrase='correct horse battery' is wrong"),
    ("correct horse battery", 'secret: "correct horse battery'),
    ("hunter2", "connection to postgres://bob:hunter2@db.example.com:5432/app failed"),
    ("hunter2", "redis://:hunter2@cache:6379/0 refused"),
    ("hun/t@r2", "postgresql+psycopg://bob:hun/t@r2@db.example.com/app failed"),
    ("hunter2", "dsn user=bob password=hunter2 host=db"),
    ("hunter2", "PGPASSWORD=hunter2 psql"),
    ("hunter2", "Server=x;User=sa;Pwd=hunter2;"),
    ("hunter2", "password => hunter2"),
    ("hunter2", "password == hunter2"),
    ("hunter2", "password := hunter2"),
    ("hunter2", "<Password>hunter2</Password>"),
    ("hunter2", "login for user 'sa' with password 'hunter2' failed"),
    ("abc123", "GET https://api.example.com/v1?api_key=abc123&x=1 -> 500"),
    ("abc123", "GET /v1/things?x=1&api_key=abc123 -> 500"),
    ("f00dfeed", "https://b.s3.amazonaws.com/k?X-Amz-Credential=a&X-Amz-Signature=f00dfeed expired"),
    ("Zm9vYmFy%3D", "https://a.blob.core.windows.net/c/b?sv=2024&sig=Zm9vYmFy%3D is forbidden"),
    ("Zm9vYmFy", "AccountName=a;AccountKey=Zm9vYmFy;EndpointSuffix=core"),
    ("f00dfeed", "redirected to https://x.example.com/cb#state=1&code=f00dfeed"),
    ("sid=abcdef", "Cookie: sid=abcdef; auth=SECRETSECRET"),
    ("SECRETSECRET", "Cookie: sid=abcdef; auth=SECRETSECRET"),
    ("SECRETSECRET", "{'Set-Cookie': 'a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT, auth=SECRETSECRET'}"),
    (PEM_LINES[0], f"-----BEGIN PRIVATE KEY-----\n{PEM_BODY}\n-----END PRIVATE KEY-----"),
    (PEM_LINES[1], f"bad: -----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}"),
    (PEM_LINES[1], '{"private_key": "-----BEGIN PRIVATE KEY-----\\n' + PEM_BODY.replace("\n", "\\n") + '"}'),
    (TELEGRAM, f"https://api.telegram.org/bot{TELEGRAM}/sendMessage: 401"),
    (TELEGRAM, f"token {TELEGRAM} is wrong"),
    (TELEGRAM.partition(":")[2], f"https://api.telegram.org/bot{TELEGRAM}/sendMessage: 401"),
    (AZURE, f"Ocp-Apim-Subscription-Key: {AZURE}"),
    (AZURE, f"key {AZURE} is disabled"),
    (AZURE, f"https://x.example.com/v1/{AZURE}/things"),
    ("GOCSPX-abcdefgh1234", "client GOCSPX-abcdefgh1234 unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("secret", "message"), SECRETS)
def test_a_planted_secret_does_not_come_out(secret, message):
    assert secret in message
    line = one_line(message)
    assert secret not in line
    assert one_line(line) == line


def test_what_is_not_secret_stays_beside_what_is():
    assert (
        one_line(f"Incorrect API key provided: {OPENAI}")
        == "Incorrect API key provided: [redacted]"
    )
    assert one_line("401 for redis://:hunter2@cache:6379/0") == "401 for redis://cache:6379/0"
    assert (
        one_line('{"password": "a\\"b", "status": 401}')
        == '{"password": [redacted], "status": 401}'
    )
    assert (
        one_line("GET https://x.example.com/v1?sig=abc -> 500")
        == "GET https://x.example.com/v1 -> 500"
    )


PATHS = [
    ("No such file: /srv/app/data/x.json", "No such file: …/x.json"),
    (
        "[Errno 2] No such file or directory: '/srv/my app/x.py'",
        "[Errno 2] No such file or directory: '…/x.py'",
    ),
    ('cannot open "/srv/bob\'s things/x.py"', 'cannot open "…/x.py"'),
    ("Error:/srv/app/x.py", "Error:…/x.py"),
    ("(/srv/app/x.py)", "(…/x.py)"),
    ("path=/srv/app/x.py, mode=r", "path=…/x.py, mode=r"),
    ('File "/srv/app/x.py", line 3, in run', 'File "…/x.py", line 3, in run'),
    ("/srv/app//logs/ is full", "…/logs is full"),
    ("/srv/[id]/page.tsx broke", "…/page.tsx broke"),
    ("//srv/app/x.py broke", "…/x.py broke"),
    ("/" + "d/" * 60 + "x.py broke", "…/x.py broke"),
    ("/" + "d" * 300 + "/x.py broke", "…/x.py broke"),
    ("~/secret/place/x.py broke", "…/x.py broke"),
    ("~bob/secret/x.py broke", "…/x.py broke"),
    (r"C:\Users\bob\x.py broke", "…/x.py broke"),
    (r"'C:\\Users\\bob jones\\x.py' broke", "'…/x.py' broke"),
    ("C:/Users/bob/x.py broke", "…/x.py broke"),
    (r"\\fileserver\share\dir\x.py broke", "…/x.py broke"),
    ("file:///srv/app/x.py broke", "…/x.py broke"),
    ("unable to open sqlite:////srv/app/jobs.db", "unable to open …/jobs.db"),
    ("unix:/var/run/app/app.sock refused", "unix:…/app.sock refused"),
    (r'{"file": "\/srv\/app\/x.py"}', '{"file": "…/x.py"}'),
]


@pytest.mark.parametrize(("message", "expected"), PATHS)
def test_of_a_server_path_only_the_last_part_is_left(message, expected):
    assert one_line(message) == expected


INNOCENT = [
    "max_tokens: 4096 is too large",
    "token limit exceeded",
    "token limit exceeded: requested 9000 of 8192",
    "Max token limit: 1048576",
    "text/html",
    "expected application/json, found text/html; charset=utf-8",
    "HTTP/1.1 503 Service Unavailable",
    "1/2 done",
    "read/write and I/O and n/a and / alone",
    "on 2026-11-16 at 02:01:30Z, or 16/11/2026",
    "Mon, 16 Nov 2026 02:01:30 GMT",
    "job 8f14e45f-ceea-467f-9575-2f3c6c0d1a4e is lost",
    "request req_011CSHoEeqs5C35K2UUqR7Fy failed",
    "Rate limit reached for gpt-4o in organization org-abc on tokens per min (TPM): Limit 30000",
    "The model `claude-3-5-sonnet-20241022` does not exist",
    "Basic authentication failed",
    "Bearer authentication is required",
    "digest mismatch",
    "password authentication failed for user bob",
    "password authentication failed: connection refused",
    'duplicate key value violates unique constraint "pk_customers"',
    "hf_hub_download failed",
    "Unexpected token < in JSON at position 0",
    "<html><head></head></html>",
    "see https://example.com/docs/errors for more",
    "connection to db.example.com:5432 refused",
    "http://host:8080/path/@bob",
    "meta-llama/Llama-3.3-70B-Instruct-Turbo is cold",
    "src/app/x.py:3: ./relative/thing and ../other",
    "KeyError: 'task-manager'",
    "Der Schlüssel passt nicht — 鍵がない",
    "api_key must be set, or the OPENAI_API_KEY environment variable",
]


@pytest.mark.parametrize("message", INNOCENT)
def test_an_innocent_message_stays_as_it_is(message):
    assert one_line(message) == message


# ---------------------------------------------------------------- properties

FRAGMENTS = st.sampled_from([
    "password", "token: ", "api_key=", "Authorization", "cookie:", "Bearer ", "basic ", "://", "@",
    "?", "#", "/", "\\", "'", '"', "`", "[redacted]", "[redact", "…", "…/", "file://", "~/", "C:\\",
    "-----BEGIN KEY-----", "-----END KEY-----", "=>", "=", ":", " ", "\n", "\u2028", "\x00", "\ud800",
    "\u202e", "sk-", "AKIA", "eyJ", "key provided: ", "12345678:", "a" * 33, "0" * 33, "<", ">", ";",
    AWS_SECRET, AZURE, OPENAI, "http://u:p@h/x?y",
])  # fmt: skip
anything = st.one_of(
    st.text(st.characters(), max_size=400),
    st.lists(st.one_of(FRAGMENTS, st.text(max_size=6)), max_size=40).map("".join),
)


@settings(max_examples=500, deadline=None)
@given(anything, st.sampled_from([0, 1, 12, 40, 200, LONGEST_MESSAGE]))
def test_any_text_becomes_one_safe_line_and_stays_so(text, longest):
    line = one_line(text, longest=longest)
    assert len(line) <= longest
    assert not {unicodedata.category(c) for c in line} & {"Cc", "Zl", "Zp", "Cs"}
    assert line == line.strip()
    assert one_line(line, longest=longest) == line


REPEATS = [
    "a" * 100_000, "/" * 100_000, "'" * 100_000, "\\" * 100_000, "@" * 100_000, "-----BEGIN" * 10_000,
    "-----BEGIN A-----" * 6_000, "key: " * 20_000, "password" * 12_000, "password=" * 10_000,
    "'/" * 50_000, "/(" * 50_000, "/a" * 50_000, ",/" * 50_000, "://" * 30_000, "a://b:" * 20_000,
    "a:" * 50_000, ":" * 100_000, "1" * 100_000, "é1" * 50_000, "a" * 50_000 + ":" + "a" * 50_000,
    "'" + "." * 100_000, "eyJ" * 30_000, "sk-" * 30_000, "hf_" * 30_000, "AKIA" * 25_000,
    "basic " * 20_000, "key a b c" * 10_000, "\n" * 100_000, "<n>" * 30_000, "mon, " * 20_000,
    "a.b" * 30_000, "cookie=" * 15_000, '\\"' * 50_000, "a" * 10_000_000, "word /srv/x " * 900_000,
]  # fmt: skip


@pytest.mark.parametrize("text", REPEATS, ids=lambda text: ascii(text[:12]))
def test_no_repetition_is_beyond_it(text):
    assert len(one_line(text)) <= LONGEST_MESSAGE
    assert len(fingerprint(text)) == 16


FORMATS = [
    ("sk-proj-", ALNUM, 40), ("sk-ant-api03-", ALNUM, 40), ("AKIA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    ("AIza", ALNUM, 35), ("ghp_", ALNUM, 36), ("xoxb-", ALNUM, 30), ("hf_", ALNUM, 34),
    ("sk_live_", ALNUM, 24), ("eyJ", ALNUM, 60), ("Bearer ", ALNUM, 30), ("password=", ALNUM, 20),
    ("api_key: ", ALNUM, 20), ('"password": "', ALNUM, 20), ("Authorization: Token ", ALNUM, 24),
    ("postgres://bob:", ALNUM, 16), ("https://x.example.com/?sig=", ALNUM, 20),
    ("-----BEGIN PRIVATE KEY-----\n", ALNUM, 64), ("123456789:", ALNUM, 35),
]  # fmt: skip
ENDS = {'"password": "': '"', "postgres://bob:": "@db.example.com/app", "-----BEGIN PRIVATE KEY-----\n": "\n-----END PRIVATE KEY-----"}  # fmt: skip
SEPARATORS = st.sampled_from([" ", "\n", "\t", "(", ", ", " '", "; ", "\u200b"])


@st.composite
def planted(draw):
    """A secret of a known format, and a text that holds it somewhere, also around the two cuts."""
    prefix, letters, length = draw(st.sampled_from(FORMATS))
    body = draw(st.text(st.sampled_from(letters), min_size=length, max_size=length))
    whole = prefix + body + ENDS.get(prefix, "")
    shift = draw(st.integers(0, len(whole) + 5))
    words = draw(st.lists(st.text(LOWER + " .!", min_size=1, max_size=12), min_size=1, max_size=30))
    text = " ".join(words)
    place = draw(st.sampled_from([len(text), LONGEST_MESSAGE, LONGEST_READ]))
    before = (text + " filler text" * (place // 10))[: max(0, place - shift)]
    after = draw(st.sampled_from(["", " and more", " x" * 5_000, "\nFile x"]))
    return body, before + draw(SEPARATORS) + whole + after


@settings(max_examples=300, deadline=None)
@given(planted())
def test_a_secret_planted_anywhere_is_never_found_again(case):
    secret, text = case
    line = one_line(text)
    assert secret[:12] not in line
    assert secret[-12:] not in line


@quick
@given(st.lists(st.text(LOWER + "0123456789_.", min_size=3, max_size=12), min_size=2, max_size=60))
def test_no_folder_of_a_path_is_left_however_long_it_is(parts):
    *folders, name = [f"q{part}" for part in parts]
    line = one_line("cannot read /" + "/".join([*folders, name]) + " today")
    assert (
        line == f"cannot read …/{name} today"
        or len(line) == LONGEST_MESSAGE
        or "[redacted]" in line
    )
    assert not any(f"{folder}/" in line for folder in folders)


# ---------------------------------------------------------------- fingerprints

SAME = [
    ("user 5 not found", "user 1,000,000 not found"),
    ("job 8f14e45f-ceea-467f-9575-2f3c6c0d1a4e lost", "job 1b4e28ba-2fa1-11d2-883f-0016d3cca427 lost"),
    ("object at 0x7f3a2b1c gone", "object at 0x55d0c8e0 gone"),
    ("commit deadbeef gone", "commit 0badcafe gone"),
    ("from 10.0.0.1 refused", "from 192.168.255.254 refused"),
    ("from 10.0.0.1:80 refused", "from 192.168.255.254:65535 refused"),
    ("from ::1 refused", "from 2001:db8::ff00:42:8329 refused"),
    ("from fe80::1%eth0 refused", "from fe80::abcd:1%eth1 refused"),
    ("from [::1]:443 refused", "from [2001:db8::1]:8443 refused"),
    ("connect to db.internal:5432 failed", "connect to db-replica.eu.example.com:6432 failed"),
    ("mail to bob@example.com failed", "mail to al.ice+x@mail.example.org failed"),
    ("GET https://a.example.com/x failed", "GET https://b.example.com/y/z failed"),
    ("at 2026-11-16T02:01:30Z", "at 1999-01-01T23:59:59Z"),
    ("at 2026-11-16 02:01:30.123456+01:00", "at 1999-01-01 23:59:59.9-05:00"),
    ("until Mon, 16 Nov 2026 02:01:30 GMT", "until Sat, 02 May 1998 22:10:03 GMT"),
    ("Nov 16 02:01:30 host died", "May  2 22:10:03 host died"),
    ("Mon Nov 16 02:01:30 2026 died", "Sat May  2 22:10:03 1998 died"),
    ("cannot open report.pdf", "cannot open invoice-final.xlsx"),
    ("No such file: '/srv/a/x.py'", "No such file: '/srv/b/other.txt'"),
    ("No such file: /srv/a/x.py", "No such file: /srv/b/other.txt"),
    ("(request id: req_011CSHoEeqs5C35K2UUqR7Fy)", "(request id: req_abcdefGHIJKLmnopQRSTuvwx)"),
    ("key sk-proj-abcdefgh1234 bad", "key sk-ant-zyxwvuts9876 bad"),
    ("Limit 30000, Used 29500, Requested 1200.", "Limit 10000, Used 9000, Requested 5."),
    ("Retry in 20s", "Retry in 1m3.5s"),
    ("column 'a1' is wrong", "column 'b2' is wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_varies_does_not_change_the_fingerprint(one, other):
    assert shape(one_line(one)) == shape(one_line(other))
    assert fingerprint(one_line(one), "X", 429) == fingerprint(one_line(other), "X", 429)


DIFFERENT = [
    ("connection refused", "connection reset"),
    ("user 5 not found", "user 5 not allowed"),
    ("monitor failed", "sunset failed"),
    ("market closed", "decoder closed"),
    ("column 'name' is wrong", "column 'title' is wrong"),
    ("context_length_exceeded", "rate_limit_exceeded"),
    ("ThrottlingException", "ProvisionedThroughputExceededException"),
    ("std::bad_alloc", "std::bad_cast"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_wording_has_another_fingerprint(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_another_code_status_or_kind_has_another_fingerprint():
    prints = [
        fingerprint("same"),
        fingerprint("same", "TIMEOUT"),
        fingerprint("same", "UNKNOWN"),
        fingerprint("same", "TIMEOUT", 408),
        fingerprint("same", "TIMEOUT", None, "httpx.ReadTimeout"),
    ]
    assert len(set(prints)) == len(prints)


MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2099, 1, 1))  # noqa: DTZ001 - Hypothesis wants naive bounds
VARYING = {
    "number": st.integers(0, 10**12).map(str),
    "float": st.floats(0, 1e6).map(lambda x: f"{x:.3f}"),
    "uuid": st.uuids().map(str),
    "hex": st.integers(0, 2**64).map(lambda n: f"0x{n:x}"),
    "sha": st.text("abcdef0123456789", min_size=8, max_size=40),
    "ipv4": st.ip_addresses(v=4).map(str),
    "ipv6": st.ip_addresses(v=6).map(str),
    "ipv6 in full": st.ip_addresses(v=6).map(lambda a: ipaddress.IPv6Address(a).exploded),
    "email": st.emails(domains=st.just("example.com")).filter(
        lambda e: not set(e) & set("'`/?#{}|")
    ),
    "port": st.integers(1, 65_535).map(lambda n: f"db.example.com:{n}"),
    "iso": MOMENTS.map(lambda m: m.replace(microsecond=0).isoformat() + "Z"),
    "http": MOMENTS.map(lambda m: format_datetime(m.replace(tzinfo=UTC), usegmt=True)),
    "syslog": MOMENTS.map(lambda m: f"{m:%b %d %H:%M:%S}"),
    "asctime": MOMENTS.map(lambda m: m.ctime()),
    "file": st.text(LOWER, min_size=1, max_size=12).map(lambda name: f"/srv/{name}/{name}.py"),
    "request id": st.text(ALNUM, min_size=20, max_size=24).map(lambda t: f"req_{t}"),
}


@pytest.mark.parametrize("kind", VARYING)
def test_any_value_of_a_kind_gives_the_same_fingerprint(kind):
    @settings(max_examples=40, deadline=None)
    @given(VARYING[kind], VARYING[kind])
    def holds(one, other):
        lines = [one_line(f"upstream said {value} and failed") for value in (one, other)]
        assert shape(lines[0]) == shape(lines[1])

    holds()


@quick
@given(anything, st.text(max_size=20))
def test_any_text_has_a_fingerprint_of_sixteen_hex_digits(text, exact):
    assert len(fingerprint(text, exact)) == 16
    assert int(fingerprint(text, exact), 16) >= 0
    assert fingerprint(text, exact) == fingerprint(text, exact)


WORDS = sorted({word for words, _, _ in redact._SECRETS for word in words if word})


@given(
    st.lists(
        st.sampled_from(
            [*WORDS, *map(str.upper, WORDS), "=", ": ", "'", '"', " ", "@", "/", "sk-abc123def"]
        )
        | st.text(max_size=8),
        max_size=12,
    ).map("".join)
)
def test_a_pattern_that_is_not_tried_would_not_have_matched(line):
    tried = line
    for _, pattern, instead in redact._SECRETS:
        tried = pattern.sub(instead, tried)
    assert redact.without_secrets(line) == redact._LONG_RUN.sub(redact._hide_long_run, tried)


@pytest.mark.parametrize(
    "message",
    [
        "DB_PASS=hunter2abc",
        "pwd hunter2abc",
        "session_id=hunter2abc",
        "auth=hunter2abc",
        "running psql --password hunter2abc",
        "running tool --api-key=hunter2abc --verbose",
        "passwd hunter2abc refused",
        "client_secret is hunter2abc",
        "the api key hunter2abc was rejected",
        "token hunter2abc is expired",
        "pass\u200bword=hunter2abc",
        "pass\u00adword=hunter2abc",
    ],
)
def test_a_secret_that_follows_its_name_is_cut_out(message):
    assert "hunter2" not in one_line(message)


@pytest.mark.parametrize(
    "message",
    [
        "…/passwd: permission denied",
        "Unexpected token at position 12",
        "the token is expired",
        "password is required",
        "secret not found in version 3",
        "3 pass, 2 fail",
        "Invalid token: expected ','",
        "token: unexpected EOF",
        "password: String should have at least 8 characters",
        "Authorization: header missing",
        "credentials: field required",
        "You can find your API key at https://platform.example.com/account/api-keys.",
        "queue my_very_long_queue_name_for_reports_2026_production",
    ],
)
def test_words_about_secrets_are_no_secrets(message):
    assert one_line(message) == message


def test_a_structure_is_shown_without_what_its_names_give_away():
    shown = redacted(
        {
            "path": "a.pdf",
            "password": "hunter2",
            "apiKey": 12345,
            "nested": [{"client_secret": ["x", "y"], "n": 1.5, "on": True, "token": None}],
            "headers": {"Authorization": "Basic YW5uOmh1bnRlcjI=", "Set-Cookie": "a=b"},
            "note": "use Bearer abcdef123456 there",
        }
    )
    assert shown == {
        "path": "a.pdf",
        "password": "[redacted]",
        "apiKey": "[redacted]",
        "nested": [
            {"client_secret": ["[redacted]", "[redacted]"], "n": 1.5, "on": True, "token": None}
        ],
        "headers": {"Authorization": "[redacted]", "Set-Cookie": "[redacted]"},
        "note": "use Bearer [redacted] there",
    }


def test_a_structure_of_any_depth_is_shown():
    deep = []
    for _ in range(5_000):
        deep = [deep]
    assert "…" in str(redacted(deep))
