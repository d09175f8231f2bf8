"""A server in the test's own process, its tasks, and a token for everybody."""

import pytest
from starlette.testclient import TestClient

from seawall import FaultError, Seawall, Skip, access
from seawall.model import Lane, Outcome
from seawall.store import NewJob, NewRun, Wanted
from seawall.web import api
from seawall.web.house import opened
from tests.support.ledger import ended

ROLES = {
    "nobody": None,
    "other": ("owner", "bob"),
    "read-only": ("read-only", None),
    "ann's reader": ("read-only", "ann"),
    "owner": ("owner", "ann"),
    "operator": ("operator", "olga"),
}


def tasks_on(app):
    @app.task(http=True)
    def add(a: int, b: int = 2) -> int:
        return a + b

    @app.task(http=True, upstream="api")
    def fails(what: str = "it") -> None:
        raise FaultError("INVALID_INPUT", f"cannot do {what}", raw_output="<html>teapot</html>")

    @app.task
    def private() -> None:
        raise Skip("nothing to do")

    @fails.retry_when
    def source_is_there(what: str = "it") -> bool | str:
        return what != "gone" or "the source is gone"


class World:
    """A server, and who comes to it."""

    def __init__(self, url, *, open_to_anybody=False, **settings):
        self.app = Seawall(url, **settings)
        tasks_on(self.app)
        self.house = opened(self.app, open_to_anybody=open_to_anybody)
        self.store = self.app.store
        self.api = api.created(self.house)
        self.client = TestClient(
            self.api,
            base_url="http://localhost:8080",
            raise_server_exceptions=False,
            follow_redirects=False,
        )
        self.client.__enter__()  # one event loop for all requests
        self.words = {}
        for role, given in ROLES.items():
            if given is not None:
                scope, owner = given
                self.words[role], _ = access.made(self.store, scope=scope, owner=owner)

    def headers(self, role):
        return {} if role == "nobody" else {"authorization": f"Bearer {self.words[role]}"}

    def ask(self, role, method, path, **how):
        headers = {**self.headers(role), **how.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **how)

    def get(self, path, role="operator", **how):
        return self.ask(role, "GET", path, **how)

    def post(self, path, role="operator", **how):
        return self.ask(role, "POST", path, **how)

    # --- what is there ------------------------------------------------------------------------

    def job(self, owner="ann", task="add", arguments='{"a":1}', **fields):
        new = NewJob(lane=Lane(task=task), arguments=arguments, owner=owner, **fields)
        return self.store.enqueue([new])[0].job_id

    def failed(self, owner="ann", task="fails", arguments='{"what":"it"}', **fields):
        job_id = self.job(owner, task, arguments, **fields)
        self.end(job_id, Outcome.FAILED)
        return job_id

    def end(self, job_id, outcome=Outcome.SUCCEEDED, **how):
        wanted = Wanted("w1", None, ["add", "fails", "private"], 100, 60)
        for claim in self.store.claim(wanted):
            if claim.token.job_id == job_id:
                self.store.settle([ended(claim.token, outcome, **how)])
                return
        raise AssertionError(f"job {job_id} is not to be had")

    def run(self, owner="ann", name="nightly"):
        return self.store.start_run(
            NewRun(pipeline="reports", name=name, stages=("one",), terms="{}", owner=owner)
        ).run_id

    def close(self):
        self.client.__exit__(None, None, None)
        self.house.close()
        self.app.close()


@pytest.fixture
def make_world():
    made = []

    def make(url="sqlite://", **how):
        made.append(World(url, **how))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def world(make_world):
    return make_world()
