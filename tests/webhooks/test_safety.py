"""Where messages go and where not, whatever a name leads to; and what nobody ever gets to see."""

import json
import logging
import socket
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from seawall.errors import ArgumentsError
from seawall.states import State
from seawall.store.webhook_values import DELIVERY_TASK
from seawall.webhooks import sending
from tests.life.world import await_state, eventually
from tests.webhooks.jobs import made

pytestmark = pytest.mark.parametrize("kind", ["file"], indirect=True)


@pytest.fixture
def names(monkeypatch):
    """Names that lead where the test says, and how often each was asked for."""
    leads: dict[str, list[str]] = {}
    asked: list[str] = []
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *args, **kwargs):
        if host not in leads:
            return real(host, port, *args, **kwargs)
        asked.append(host)
        return [each for at in leads[host] for each in real(at, port, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    leads["asked"] = asked  # type: ignore[assignment]
    return leads


def delivered(app):
    """The one delivery, once it has ended."""

    def ended():
        return [job for job in app.jobs(task=DELIVERY_TASK) if job.finished_at is not None]

    return eventually(ended)[0]


def refused(app):
    job = delivered(app)
    assert job.state is State.FAILED
    assert job.seq == 1, "nothing is gained by asking again"
    return job.last_fault.message


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/x", "https://localhost/x", "https://[::1]/x", "https://2130706433/x",
        "https://0x7f.1/x", "https://169.254.169.254/latest/meta-data", "https://10.0.0.1/",
        "https://[::ffff:127.0.0.1]/", "https://0/",
    ],
)  # fmt: skip
def test_what_leads_inwards_cannot_be_made(url, tmp_path, kind):
    app = made(f"sqlite:///{tmp_path}/x.db", webhook_allow="hooks.internal")

    with pytest.raises(ArgumentsError, match=r"not public.*webhook_allow"):
        app.webhooks.create(url)
    assert list(app.webhooks) == []
    app.close()


def test_plain_http_cannot_be_made(tmp_path, kind):
    app = made(f"sqlite:///{tmp_path}/x.db", webhook_allow="hooks.internal")

    with pytest.raises(ArgumentsError, match="HTTPS"):
        app.webhooks.create("http://93.184.215.14/hooks")
    app.close()


def test_workers_look_again_at_what_was_allowed_elsewhere(app, url, receiver, hire):
    app.webhooks.create(receiver.url)
    stricter = made(url, webhook_allow="10.9.9.9")
    stricter.tasks["well"].enqueue()
    hire(stricter)

    message = refused(app)

    assert message.startswith("refused: 127.0.0.1 leads to 127.0.0.1, which is not public")
    assert receiver.got == []
    stricter.close()


def test_a_name_that_has_come_to_lead_inwards_is_refused(app, url, receiver, hire, names):
    strict = made(url, webhook_allow="10.9.9.9")
    names["hooks.example.com"] = ["93.184.215.14"]
    strict.webhooks.create(f"https://hooks.example.com:{receiver.port}/")
    names["hooks.example.com"] = ["93.184.215.14", "127.0.0.1"]
    strict.tasks["well"].enqueue()
    hire(strict)

    assert "127.0.0.1, which is not public" in refused(app)
    assert receiver.got == []
    strict.close()


def test_what_is_called_is_the_address_that_was_looked_at(app, receiver, hire, names):
    """A name that leads elsewhere at the second look is never looked at twice."""
    names["hooks.example.com"] = ["127.0.0.1"]
    app.webhooks.create(f"http://hooks.example.com:{receiver.port}/a?b=c%20d")
    names["asked"].clear()
    job = app.tasks["well"].enqueue()
    hire(app)
    (got,) = receiver.await_(("job.complete", job.id))

    assert names["asked"] == ["hooks.example.com"]
    assert got.headers["host"] == f"hooks.example.com:{receiver.port}"
    assert got.path == "/a?b=c%20d"


def test_where_one_address_does_not_answer_the_next_is_tried(app, receiver, hire, names):
    names["hooks.example.com"] = ["127.0.0.77", "127.0.0.1"]
    both = made(app.settings.url, webhook_allow="127.0.0.0/8")
    both.webhooks.create(f"http://hooks.example.com:{receiver.port}/")
    job = both.tasks["well"].enqueue()
    hire(both)

    receiver.await_(("job.complete", job.id))
    assert delivered(app).seq == 1
    both.close()


def test_an_ipv6_address_is_called(app, receivers, hire):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    receiver = receivers()
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    receiver.down()
    receiver.host = "::1"
    receiver.up()
    app.webhooks.create(f"http://[::1]:{receiver.port}/hooks")
    job = app.tasks["well"].enqueue()
    hire(app)

    (got,) = receiver.await_(("job.complete", job.id))
    assert got.headers["host"] == f"[::1]:{receiver.port}"


def test_no_proxy_of_the_environment_is_asked(app, receiver, receivers, hire, monkeypatch):
    proxy = receivers()
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    app.webhooks.create(receiver.url)
    job = app.tasks["well"].enqueue()
    hire(app)

    receiver.await_(("job.complete", job.id))
    assert proxy.got == []


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture
def certified(tmp_path):
    """A context of a server with a certificate of its own for a name, and where that stands."""

    def make(name):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = tmp_path / f"{name}.pem"
        plain = serialization.NoEncryption()
        pem.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        return context, pem

    return make


def test_a_certificate_must_be_that_of_the_name(
    app, receivers, hire, names, certified, monkeypatch
):
    context, pem = certified("hooks.example.com")
    monkeypatch.setattr(
        sending, "_trust", lambda: ssl.create_default_context(cafile=pem), raising=True
    )
    receiver = receivers(tls=context)
    names["hooks.example.com"] = names["other.example.com"] = ["127.0.0.1"]
    app.webhooks.create(f"https://hooks.example.com:{receiver.port}/")
    job = app.tasks["well"].enqueue()
    hire(app)
    receiver.await_(("job.complete", job.id))
    await_state(app.store, State.SUCCEEDED, delivered(app).id)
    many = len(receiver.got)

    app.webhooks.create(f"https://other.example.com:{receiver.port}/", events=["job.skipped"])
    app.tasks["nothing"].enqueue()
    waiting = eventually(
        lambda: [j for j in app.jobs(task=DELIVERY_TASK, state="queued") if j.last_fault]
    )

    assert waiting[0].last_fault.message == (
        "the certificate of other.example.com was not accepted"
    )
    assert len(receiver.got) == many


def test_a_certificate_that_nobody_vouches_for_is_not_accepted(
    app, receivers, hire, names, certified
):
    context, _ = certified("hooks.example.com")
    receiver = receivers(tls=context)
    names["hooks.example.com"] = ["127.0.0.1"]
    app.webhooks.create(f"https://hooks.example.com:{receiver.port}/")
    app.tasks["well"].enqueue()
    hire(app)

    waiting = eventually(
        lambda: [j for j in app.jobs(task=DELIVERY_TASK, state="queued") if j.last_fault]
    )
    assert waiting[0].last_fault.message == (
        "the certificate of hooks.example.com was not accepted"
    )
    assert receiver.got == []


# --- what nobody gets to see ------------------------------------------------------------------------

PLANTED = {
    "argument": "sk-live-argument-4242424242424242",
    "error": "sk-live-error-4242424242424242",
    "query": "sk-live-query-4242424242424242",
    "result": "sk-live-result-4242424242424242",
}


def test_no_secret_is_in_any_message_log_list_or_job(app, receiver, hire, caplog):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "httpcore2")  # what it debugs with is the receiver's own

    @app.task(policy="once")
    def leaks(argument: str) -> None:
        raise RuntimeError(f"it broke: api_key={PLANTED['error']}")

    @app.task
    def gives(argument: str) -> dict:
        return {"token": PLANTED["result"]}

    answers = iter([500, 404])
    receiver.answer = lambda _: (next(answers, 200), {"X-Token": PLANTED["error"]})
    hook = app.webhooks.create(
        f"{receiver.url}?token={PLANTED['query']}",
        events=["job.queued", "job.complete", "job.failed"],
    )
    other = app.webhooks.rotate(hook.webhook.id)
    bad, good = leaks.enqueue(PLANTED["argument"]), gives.enqueue(PLANTED["argument"])
    hire(app, drain=True).join()
    receiver.await_(("job.failed", bad.id), ("job.complete", good.id))

    secrets = [hook.secret, other.secret, hook.secret[6:], other.secret[6:]]
    texts = {
        "messages": repr([(got.headers, got.body) for got in receiver.got]),
        "logs": caplog.text + repr([vars(record) for record in caplog.records]),
        "lists": repr([list(app.webhooks), app.webhooks.get(hook.webhook.id), hook, other]),
        "jobs": repr(
            [
                (job, app.store.arguments(job.id), app.store.attempts(job.id),
                 app.store.output(job.id, 0), app.store.evidence(job.id, 1))
                for job in app.jobs(task=DELIVERY_TASK)
            ]
        ),
    }  # fmt: skip
    for where, text in texts.items():
        for planted in [*PLANTED.values(), *secrets]:
            assert planted not in text, where
    assert any(PLANTED["query"] in got.path for got in receiver.got), "only the receiver sees it"


def test_messages_are_small_whatever_a_job_is_like(app, receiver, hire):
    app.webhooks.create(receiver.url, events=["job.failed", "job.queued"])
    long = "é" * 200
    app.tasks["badly"].using(key=long, owner=long, tags=[long]).enqueue("x" * 100_000)
    hire(app, drain=True).join()

    assert {got.event[0] for got in receiver.got} == {"job.failed", "job.queued"}
    for got in receiver.got:
        assert len(got.body) < 8_192
        assert json.loads(got.body)["data"]["key"] == long
