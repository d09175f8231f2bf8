"""Finding jobs through the API, and acting on all that match: each on what is his."""

import pytest

from seawall.store import Wanted, finding

SECRET = '{"what":"a.pdf","password":"hunter2"}'


def ids(world, query, who="operator"):
    return [each["id"] for each in world.get(f"/api/jobs?{query}", who).json()["items"]]


def cancel(world, who="operator", **body):
    return world.post("/api/jobs/cancel", who, json=body)


def test_jobs_are_found_by_their_last_fault_and_by_what_their_arguments_hold(world):
    bad = world.failed(arguments=SECRET)
    good = world.job(arguments='{"a":1}')

    assert ids(world, "fault=TIMEOUT") == [bad]
    assert ids(world, "argument=A.PDF") == [bad]
    assert ids(world, "argument=%22a%22") == [good]
    assert ids(world, "fault=TIMEOUT&argument=nothing") == []


def test_what_is_not_shown_is_not_found(world):
    world.failed(arguments=SECRET)

    for who in ("owner", "operator"):
        guess = world.get("/api/jobs?argument=hunter2&limit=1", who)
        wrong = world.get("/api/jobs?argument=hunter3&limit=1", who)
        assert guess.json() == wrong.json()


def test_an_owner_searches_his_own_only(world):
    hers, his = world.failed("ann", arguments=SECRET), world.failed("bob", arguments=SECRET)

    assert ids(world, "argument=a.pdf", "owner") == [hers]
    assert ids(world, "argument=a.pdf", "other") == [his]
    assert ids(world, "argument=a.pdf&owner=bob", "owner") == []
    assert ids(world, "argument=a.pdf") == [his, hers]


def test_a_part_says_whether_it_looked_at_all(world, monkeypatch):
    monkeypatch.setattr(finding, "LOOKED_AT", 3)
    world.job("bob")
    for _ in range(8):
        world.job("ann")

    answer = world.get("/api/jobs?state=queued", "other").json()
    seen = list(answer["items"])
    assert (answer["items"], answer["whole"]) == ([], False) or seen
    while answer["next"]:
        answer = world.get(f"/api/jobs?state=queued&after={answer['next']}", "other").json()
        seen += answer["items"]

    assert [each["owner"] for each in seen] == ["bob"]
    assert answer["whole"]


@pytest.mark.parametrize(
    "query", ["fault=BOGUS", "argument=", f"argument={'x' * 201}", "state=bogus"]
)
def test_what_cannot_be_looked_for_is_refused_in_words(world, query):
    answer = world.get(f"/api/jobs?{query}")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("argument", ["%00", "%0A", "%20"])
def test_text_that_no_arguments_can_hold_is_in_none(world, argument):
    world.job()
    assert ids(world, f"argument={argument}") == []


# --- cancelling all that match --------------------------------------------------------------------


def test_all_that_match_are_counted_first_and_then_cancelled(world):
    jobs = [world.job() for _ in range(3)]
    world.job(task="fails")

    plan = cancel(world, which={"task": "add", "state": "queued"}, dry_run=True).json()
    assert (plan["found"], plan["cancelled"], plan["whole"]) == (3, 0, True)
    told = cancel(world, which={"task": "add", "state": "queued"}).json()

    assert (told["found"], told["cancelled"], told["stopping"], told["ended"]) == (3, 3, 0, 0)
    assert {str(job.state) for job in world.store.jobs(jobs).values()} == {"cancelled"}
    assert ids(world, "state=queued") == [jobs[-1] + 1]


def test_unfinished_ones_are_those_that_wait_and_those_that_run(world):
    world.failed()
    world.job()
    world.job()
    world.store.claim(Wanted("w1", None, ["add"], 1, 60))

    told = cancel(world, which={"state": "unfinished"}).json()

    assert (told["found"], told["cancelled"], told["stopping"]) == (2, 1, 1)


def test_an_owner_cancels_by_filter_only_what_is_his(world):
    hers, his, nobodys = world.job("ann"), world.job("bob"), world.job(None)

    assert cancel(world, "owner", which={"state": "queued"}).json()["cancelled"] == 1
    assert (
        cancel(world, "owner", which={"state": "unfinished", "owner": "bob"}).json()["found"] == 0
    )

    found = world.store.jobs([hers, his, nobodys])
    assert [str(found[each].state) for each in (hers, his, nobodys)] == [
        "cancelled", "queued", "queued",
    ]  # fmt: skip


@pytest.mark.parametrize("who", ["owner", "operator"])
def test_to_say_nothing_is_not_to_mean_everything(world, who):
    job = world.job()

    answer = cancel(world, who, which={})

    assert answer.status_code == 422
    assert "state" in answer.text
    assert str(world.store.jobs([job])[job].state) == "queued"


@pytest.mark.parametrize(
    "body",
    [{}, {"which": {"colour": "red"}}, {"which": {"state": "failed"}}, {"which": {"state": "queued"},
     "dry_run": "yes"}, {"which": {"state": "queued", "run": "7"}}],
)  # fmt: skip
def test_an_aim_that_is_none_is_refused(world, body):
    job = world.job()
    assert world.post("/api/jobs/cancel", json=body).status_code == 422
    assert str(world.store.jobs([job])[job].state) == "queued"


def test_failed_jobs_that_match_are_sent_again_by_operators(world):
    bad, other = world.failed(arguments=SECRET), world.failed()
    body = {"which": {"state": "failed", "argument": "a.pdf"}}

    plan = world.post("/api/jobs/redrive", json={**body, "dry_run": True}).json()
    assert (plan["found"], plan["sent"]) == (1, 0)
    told = world.post("/api/jobs/redrive", json=body).json()

    assert (told["found"], told["sent"], told["whole"]) == (1, 1, True)
    found = world.store.jobs([bad, other])
    assert [str(found[each].state) for each in (bad, other)] == ["queued", "failed"]
    assert world.app.dead_letter(bad).handled_by == "olga"


# --- parents and children -------------------------------------------------------------------------


def test_a_job_tells_of_its_parent_and_its_children(world):
    parent = world.job()
    born = [world.job(parent=parent) for _ in range(3)]

    assert world.get(f"/api/jobs/{born[0]}", "owner").json()["parent"] == parent
    assert world.get(f"/api/jobs/{parent}", "owner").json()["parent"] is None

    def children(query=""):
        found = world.get(f"/api/jobs/{parent}/children{query}", "owner").json()
        return [each["id"] for each in found]

    assert children() == born
    assert children("?limit=2") == born[:2]
    assert children(f"?after={born[1]}") == born[2:]


def test_an_owner_is_told_of_his_own_family_only(world):
    parent = world.job("bob")
    hers, his = world.job("ann", parent=parent), world.job("bob", parent=parent)
    grown = world.job("bob", parent=hers)

    def children(job, who):
        return [each["id"] for each in world.get(f"/api/jobs/{job}/children", who).json()]

    assert children(parent, "other") == [his]
    assert children(parent, "operator") == [hers, his]
    assert children(hers, "owner") == []
    assert world.get(f"/api/jobs/{hers}", "owner").json()["parent"] is None
    assert world.get(f"/api/jobs/{hers}").json()["parent"] == parent
    assert world.get(f"/api/jobs/{parent}/children", "owner").status_code == 404
    assert grown


def test_a_group_says_what_is_to_be_thought_of_it(world):
    world.failed()

    (group,) = world.get("/api/dead-letters/groups").json()["groups"]

    assert (group["kind"], group["policies"], group["configs"]) == ("new", [], [])
