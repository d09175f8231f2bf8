"""Every route × everybody, in one table; and that the table leaves no route out."""

import itertools

import pytest
from fastapi import routing

from tests.web.conftest import ROLES
from tests.web.page_routes import PAGES

WHO = tuple(ROLES)
PUBLIC = (200, 200, 200, 200, 200, 200)
MINE = (401, 404, 200, 200, 200, 200)
"""What belongs to ann: others do not find it, readers see it."""
MY_WRITE = (401, 404, 403, 403, 200, 200)
ALL_READ = (401, 403, 200, 403, 403, 200)
OPERATE = (401, 403, 403, 403, 403, 200)

TABLE = {
    #                                    nobody, other, read-only, ann's reader, owner, operator
    ("GET", "/health"): PUBLIC,
    ("GET", "/ready"): PUBLIC,
    ("GET", "/api/openapi.json"): PUBLIC,
    ("GET", "/login"): PUBLIC,
    ("POST", "/login"): (401, 401, 401, 401, 401, 401),  # it goes by its form, which is empty
    ("POST", "/logout"): (401, 303, 303, 303, 303, 303),
    ("GET", "/api/jobs"): (401, 200, 200, 200, 200, 200),  # each sees his own: see below
    ("POST", "/api/jobs"): (401, 201, 403, 403, 201, 201),
    ("POST", "/api/jobs/cancel"): (401, 200, 403, 403, 200, 200),  # each his own: see below
    ("POST", "/api/jobs/redrive"): OPERATE,
    ("GET", "/api/jobs/{job_id:int}"): MINE,
    ("GET", "/api/jobs/{job_id:int}/children"): MINE,
    ("GET", "/api/jobs/{job_id:int}/attempts"): MINE,
    ("GET", "/api/jobs/{job_id:int}/events"): MINE,
    ("GET", "/api/jobs/{job_id:int}/result"): MINE,
    ("GET", "/api/jobs/{job_id:int}/why"): MINE,
    ("POST", "/api/jobs/{job_id:int}/retry"): (401, 404, 403, 403, 200, 403),  # its owner only
    ("POST", "/api/jobs/{job_id:int}/cancel"): MY_WRITE,
    ("GET", "/api/dead-letters"): (401, 200, 200, 200, 200, 200),
    ("GET", "/api/dead-letters/groups"): (401, 200, 200, 200, 200, 200),
    ("GET", "/api/dead-letters/{job_id:int}"): MINE,
    ("POST", "/api/dead-letters/redrive"): OPERATE,
    ("POST", "/api/dead-letters/dismiss"): MY_WRITE,
    ("POST", "/api/dead-letters/undismiss"): MY_WRITE,
    ("GET", "/api/runs"): (401, 200, 200, 200, 200, 200),
    ("GET", "/api/runs/{run_id:int}"): MINE,
    ("GET", "/api/runs/{run_id:int}/report"): MINE,
    ("POST", "/api/runs/{run_id:int}/pause"): MY_WRITE,
    ("POST", "/api/runs/{run_id:int}/resume"): MY_WRITE,
    ("POST", "/api/runs/{run_id:int}/cancel"): MY_WRITE,
    ("GET", "/api/upstreams"): ALL_READ,
    ("POST", "/api/upstreams/{name:path}/hold"): OPERATE,
    ("POST", "/api/upstreams/{name:path}/resume"): OPERATE,
    ("POST", "/api/upstreams/{name:path}/force"): OPERATE,
    ("GET", "/api/queues"): ALL_READ,
    ("POST", "/api/queues/{name:path}/pause"): OPERATE,
    ("POST", "/api/queues/{name:path}/resume"): OPERATE,
    ("GET", "/api/webhooks"): OPERATE,  # an address may be secret
    ("POST", "/api/webhooks"): (401, 403, 403, 403, 403, 201),
    ("GET", "/api/webhooks/{webhook_id:int}"): OPERATE,
    ("DELETE", "/api/webhooks/{webhook_id:int}"): OPERATE,
    ("POST", "/api/webhooks/{webhook_id:int}/test"): (401, 403, 403, 403, 403, 202),
    ("POST", "/api/webhooks/{webhook_id:int}/pause"): OPERATE,
    ("POST", "/api/webhooks/{webhook_id:int}/resume"): OPERATE,
    ("POST", "/api/webhooks/{webhook_id:int}/rotate"): OPERATE,
    ("GET", "/api/workers"): ALL_READ,
    ("GET", "/api/stats"): ALL_READ,
    ("GET", "/metrics"): ALL_READ,
    ("GET", "/api/events"): (401, 200, 200, 200, 200, 200),  # each hears of his own: test_live
}

BODIES = {
    "/api/jobs": lambda world, job: {"task": "add", "arguments": {"a": 1}},
    "/api/jobs/cancel": lambda world, job: {"which": {"state": "queued"}, "dry_run": True},
    "/api/jobs/redrive": lambda world, job: {"which": {"state": "failed"}, "dry_run": True},
    "/api/dead-letters/redrive": lambda world, job: {"jobs": [job]},
    "/api/dead-letters/dismiss": lambda world, job: {"jobs": [job], "note": "a test"},
    "/api/dead-letters/undismiss": lambda world, job: {"jobs": [job]},
    "/api/upstreams/{name:path}/force": lambda world, job: {"to": "open"},
    "/api/webhooks": lambda world, job: {"url": "https://93.184.215.14/hooks"},
}


NUMBERS = itertools.count()


def prepared(world, method, route):
    """What the route works on, so that whoever may do it can: the path, and the body."""
    job = run = 0
    if "{job_id:int}" in route or "dead-letters" in route:
        job = world.job() if route.endswith("cancel") else world.failed()
    if route.endswith("undismiss"):
        world.store.dismiss([job], note="x")
    if "{run_id:int}" in route:
        run = world.run(name=f"run {next(NUMBERS)}")
        if route.endswith("resume"):
            world.store.stop_run(run, "paused", reason="x")
    if route.endswith("/resume") and "queues" in route:
        world.app.pause("mail")
    if route.endswith("/resume") and "upstreams" in route:
        world.app.upstreams.hold("mail")
    if "{webhook_id:int}" in route:
        hook = world.app.webhooks.create("https://93.184.215.14/hooks").webhook.id
        if route.endswith("/resume"):
            world.app.webhooks.pause(hook)
        route_of_hook = route.replace("{webhook_id:int}", str(hook))
        return route_of_hook, None
    path = route.replace("{job_id:int}", str(job)).replace("{run_id:int}", str(run))
    path = path.replace("{name:path}", "mail")
    return path, BODIES.get(route if method == "POST" else "", lambda *_: None)(world, job)


CASES = [
    pytest.param(method, route, who, status, id=f"{who}: {method} {route}")
    for (method, route), row in TABLE.items()
    for who, status in zip(WHO, row, strict=True)
    if route != "/api/events" or who == "nobody"  # a stream has no end: test_live
]


@pytest.fixture(scope="module")
def shared_world():
    from tests.web.conftest import World

    made = World("sqlite://")
    yield made
    made.close()


@pytest.mark.parametrize(("method", "route", "who", "status"), CASES)
def test_who_may_do_what(shared_world, method, route, who, status):
    path, body = prepared(shared_world, method, route)

    answer = shared_world.ask(who, method, path, json=body)

    assert answer.status_code == status, answer.text
    if status >= 400 and route != "/login":
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
        assert answer.json()["request_id"] == answer.headers["x-request-id"]
    if status == 401 and route != "/login":
        assert answer.headers["www-authenticate"].startswith("Bearer")


def routes_of(api):
    every = getattr(routing, "iter_route_contexts", iter)  # as FastAPI has it since it nests them
    return {
        (method, route.path)
        for route in every(api.routes)
        for method in route.methods
        if method != "HEAD"
    }


def test_the_table_has_every_route_and_no_other(shared_world):
    described = {
        (method.upper(), path)
        for path, operations in shared_world.api.openapi()["paths"].items()
        for method in operations
    }
    there = routes_of(shared_world.api)

    assert there == set(TABLE) | set(PAGES)
    assert described <= {
        (method, path.replace(":path", "").replace(":int", "")) for method, path in there
    }


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/none", "/api/jobs/"])
def test_what_is_not_there_is_no_way_in(shared_world, path):
    assert shared_world.get(path, "nobody").status_code in {401, 404}
    assert shared_world.get(path, "owner").status_code == 404


LISTS = ["/api/jobs", "/api/dead-letters", "/api/runs"]


@pytest.mark.parametrize("path", LISTS)
def test_an_owner_sees_only_his_own_in_lists_whatever_he_asks_for(make_world, path):
    world = make_world()
    for owner in ("ann", "bob", None):
        world.failed(owner)
        world.run(owner, name=f"of {owner}")

    def owners(who, query=""):
        return {each["owner"] for each in world.get(path + query, who).json()["items"]}

    assert owners("owner") == owners("ann's reader") == {"ann"}
    assert owners("other") == {"bob"}
    assert owners("operator") == owners("read-only") == {"ann", "bob", None}
    if path != "/api/runs":
        assert owners("owner", "?owner=bob") == set()
        assert owners("owner", "?owner=ann") == {"ann"}
        assert owners("operator", "?owner=bob") == {"bob"}


def test_groups_are_of_ones_own_letters(make_world):
    world = make_world()
    for owner in ("ann", "ann", "bob"):
        world.failed(owner)

    def letters(who, query=""):
        return world.get(f"/api/dead-letters/groups{query}", who).json()["letters"]

    assert [letters(who) for who in ("owner", "other", "operator")] == [2, 1, 3]
    assert letters("owner", "?owner=bob") == 0


def test_an_owner_dismisses_by_filter_only_what_is_his(make_world):
    world = make_world()
    hers, his = world.failed("ann"), world.failed("bob")

    answer = world.post(
        "/api/dead-letters/dismiss", "owner", json={"which": {"state": "open"}, "note": "x"}
    )

    assert answer.json()["done"] == 1
    assert world.app.dead_letter(hers).state == "dismissed"
    assert world.app.dead_letter(hers).handled_by == "ann"
    assert world.app.dead_letter(his).state == "open"


def test_a_letter_of_somebody_else_among_ones_own_stops_it_all(make_world):
    world = make_world()
    hers, his = world.failed("ann"), world.failed("bob")

    answer = world.post(
        "/api/dead-letters/dismiss", "owner", json={"jobs": [hers, his], "note": "x"}
    )

    assert answer.status_code == 404
    assert world.app.dead_letter(hers).state == "open"


def test_a_failed_job_of_nobody_is_retried_by_operators_only(make_world):
    world = make_world()
    job = world.failed(None)

    found = [world.post(f"/api/jobs/{job}/retry", who).status_code for who in ("owner", "operator")]

    assert found == [404, 200]


def test_the_roles_of_the_table_are_all_there_are(shared_world):
    rights = {(scope, owner is not None) for scope, owner in filter(None, ROLES.values())}
    every = set(itertools.product(("owner", "operator", "read-only"), (True, False)))
    # An owner needs a name; an operator's makes no difference to what he may do.
    assert every - rights == {("owner", False), ("operator", False)}
