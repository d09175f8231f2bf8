"""Dead letters, runs, upstreams, queues, workers and stats over HTTP."""

import pytest

from seawall.store import Presence


def test_a_redrive_says_first_what_it_would_do(world):
    jobs = [world.failed() for _ in range(3)]

    planned = world.post(
        "/api/dead-letters/redrive",
        json={"which": {"state": "open", "fault": "TIMEOUT"}, "dry_run": True},
    ).json()
    assert (planned["found"], planned["sent"], planned["unserved"]) == (3, 0, ["fails"])
    done = world.post("/api/dead-letters/redrive", json={"jobs": jobs[:2], "rate": 1.0}).json()

    assert (done["found"], done["sent"], done["last_due_seconds"]) == (2, 2, 1.0)
    assert [world.app.job(job).state for job in jobs] == ["queued", "queued", "failed"]
    assert world.app.dead_letter(jobs[0]).handled_by == "olga"


def test_canaries_that_nobody_serves_hold_the_rest_back(world):
    for _ in range(3):
        world.failed()

    answer = world.post(
        "/api/dead-letters/redrive",
        json={"which": {"state": "open"}, "canary": 1, "canary_seconds": 0.1},
    ).json()

    assert (answer["canary"], answer["sent"], answer["held_back"], answer["ok"]) == (
        "undecided", 1, 2, False,
    )  # fmt: skip


def test_a_redrive_of_nothing_in_particular_is_refused(world):
    for body in ({}, {"jobs": []}, {"which": {}}, {"jobs": [1], "which": {"state": "open"}}):
        assert world.post("/api/dead-letters/redrive", json=body).status_code == 422


@pytest.mark.parametrize("deed", ["redrive", "dismiss", "undismiss"])
def test_which_letters_were_meant_is_what_a_mistake_is_told_of(world, deed):
    rest = {"note": "dealt with"} if deed == "dismiss" else {}
    said = {
        "say either jobs": {},
        "body.by_kind.which.state: ": {"which": {"state": "opn"}},
        "body.by_number.jobs.0: ": {"jobs": ["x"]},
    }
    for line, body in said.items():
        answer = world.post(f"/api/dead-letters/{deed}", json={**body, **rest})
        assert answer.status_code == 422
        assert line in answer.json()["detail"]


def test_letters_are_listed_grouped_dismissed_and_opened_again(world):
    job = world.failed()
    (letter,) = world.get("/api/dead-letters").json()["items"]
    assert letter["fault"]["code"] == "TIMEOUT"
    (group,) = world.get("/api/dead-letters/groups").json()["groups"]
    assert (group["count"], group["fingerprint"]) == (1, letter["fingerprint"])

    world.post("/api/dead-letters/dismiss", json={"jobs": [job], "note": "known"})
    assert world.get("/api/dead-letters").json()["items"] == []
    shown = world.get(f"/api/dead-letters/{job}").json()
    assert (shown["state"], shown["note"], shown["handled_by"]) == ("dismissed", "known", "olga")
    answer = world.post("/api/dead-letters/undismiss", json={"jobs": [job]}).json()

    assert answer == {"done": 1, "refused": 0, "refusals": []}


def test_a_job_that_has_not_failed_has_no_letter(world):
    assert world.get(f"/api/dead-letters/{world.job()}").status_code == 404


def test_runs_are_listed_in_parts_stopped_and_go_on(world):
    runs = [world.run(name=f"r{n}") for n in range(3)]
    first = world.get("/api/runs?limit=2").json()
    rest = world.get(f"/api/runs?limit=2&after={first['next']}").json()
    assert [each["id"] for each in first["items"] + rest["items"]] == runs[::-1]
    assert rest["next"] is None
    path = f"/api/runs/{runs[0]}"

    assert world.post(f"{path}/pause", json={"why": "lunch"}).json()["status"] == "paused"
    assert world.get(path).json()["reason"] == "lunch"
    assert world.post(f"{path}/pause").status_code == 409
    assert world.post(f"{path}/resume").json()["status"] == "running"
    assert world.post(f"{path}/resume").status_code == 409
    assert world.post(f"{path}/cancel").json()["status"] == "cancelled"
    assert world.get(f"{path}/report").json()["run"]["status"] == "cancelled"


def test_an_upstream_is_held_forced_and_let_go(world):
    assert world.post("/api/upstreams/api:eu/hold", json={"seconds": 60, "why": "x"}).json() == {
        "name": "api:eu", "held": True,
    }  # fmt: skip
    (shown,) = (each for each in world.get("/api/upstreams").json() if each["name"] == "api:eu")
    assert (shown["forced"], shown["reason"]) == ("open", "x")
    assert world.post("/api/upstreams/api:eu/resume").json()["held"] is False
    assert world.post("/api/upstreams/api:us/resume").status_code == 409
    assert world.post("/api/upstreams/api/force", json={"to": "closed"}).json()["held"] is False
    assert world.post("/api/upstreams/api/force", json={"to": "ajar"}).status_code == 422


def test_a_name_may_have_a_slash(world):
    assert world.post("/api/queues/a%2Fb/pause").json() == {"name": "a/b", "held": True}
    assert [hold.name for hold in world.app.holds()] == ["a/b"]


def test_a_queue_is_paused_and_goes_on(world):
    world.job()
    assert world.post("/api/queues/default/pause", json={"why": "lunch"}).json()["held"] is True
    (shown,) = world.get("/api/queues").json()
    assert (shown["queue"], shown["due"], shown["paused"]) == ("default", 1, True)
    assert shown["holds"][0]["reason"] == "lunch"
    assert world.post("/api/queues/default/resume").json()["held"] is False
    assert world.post("/api/queues/default/resume").status_code == 409


def test_workers_and_stats_tell_how_it_all_stands(world):
    world.store.appear(
        Presence(
            worker="w9", host="box", pid=7, version="1", queues=None, tasks=("add",),
            concurrency=4, running=1,
        )
    )  # fmt: skip
    world.failed()
    world.job()

    (worker,) = world.get("/api/workers").json()
    stats = world.get("/api/stats", "read-only").json()

    assert (worker["worker"], worker["queues"], worker["concurrency"]) == ("w9", None, 4)
    assert (stats["states"]["failed"], stats["states"]["queued"]) == (1, 1)
    assert (stats["due"], stats["open_letters"], stats["workers"], stats["slots"]) == (1, 1, 1, 4)


def test_stats_are_counted_once_for_all_who_ask(world):
    before = world.get("/api/stats").json()
    world.job()

    assert world.get("/api/stats").json() == before
