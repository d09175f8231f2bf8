"""How pages look: nothing that shuts somebody out, by axe; nothing that overflows a phone.

In light, in dark and on a phone, with something of everything on them: a run with a dead letter, an
upstream that is held, menus that are open. What is looked at does not depend on the store, so one
will do; in CI it is both.
"""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import ONE, harbour_at

OPERATORS = [
    "/", "/jobs", "/jobs?state=failed", "/jobs?run=x", "/jobs/{failed}", "/jobs/{item}",
    "/jobs/act?do=cancel&state=queued", "/jobs/act?do=retry&task=print_page", "/dead",
    "/dead?state=dismissed", "/dead/groups/{group}", "/dead/groups/nothing", "/dead/letters/{failed}",
    "/runs", "/runs/{run}", "/runs/{run}/report", "/runs/{run}/cancel", "/runs/{open}/cancel",
    "/upstreams", "/upstreams/tide", "/policies", "/policies/ai-worker?status=503", "/fleet",
    "/jobs/999999999",
]  # fmt: skip
OWNERS = ["/", "/jobs", "/jobs/{hers}", "/dead", "/dead/letters/{hers}", "/upstreams"]
LOOKS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
}


@pytest.fixture(scope="module", params=ONE)
def harbour(request):
    with harbour_at(request) as made:
        yield made


@pytest.fixture(scope="module")
def content(harbour):
    """Something of each kind to look at."""
    harbour.remove("x.pdf")
    failed = [harbour.ask("print_page", path="x.pdf") for _ in range(3)]
    hers = harbour.ask("print_page", owner="ann", path="lost.pdf")
    harbour.put("y.pdf")
    done = harbour.ask("print_page", path="y.pdf")
    run = harbour.fill_run()
    for job in [*failed, hers]:
        harbour.until(job, "failed")
    harbour.until(done, "succeeded")
    items = [each.id for each in harbour.store.jobs(run=run)]
    for item in items:
        harbour.until(item, "succeeded", "failed")
    (item,) = [each for each in items if harbour.state(each) == "failed"]
    harbour.store.upstreams.hold("tide", seconds=3_600, why="spring tide")
    harbour.ask("sail", owner="ann", to="nowhere")
    letter = harbour.store.dead_letter(failed[0])
    return {
        "failed": failed[0],
        "hers": hers,
        "item": item,
        "group": letter.fingerprint,
        "run": run,
        "open": harbour.fill_run("held"),
    }


def wrong_with(page, axe):
    """What shuts somebody out, or does not fit."""
    page.evaluate("for (const each of document.querySelectorAll('main details')) each.open = true")
    page.evaluate(
        "for (const each of document.querySelectorAll('.actions details')) each.open = false"
    )
    found = list(serious(page, axe))
    for at in range(page.locator(".actions details").count()):  # one lies over the other
        page.evaluate(
            "at => document.querySelectorAll('.actions details').forEach((each, n) => { each.open = n === at; })",
            at,
        )
        found += serious(page, axe)
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return found + ([f"is {wide} px too wide"] if wide > 0 else [])


def serious(page, axe):
    for each in axe.run(page).response["violations"]:
        if each["impact"] in ("serious", "critical"):
            yield each["id"], [node["target"] for node in each["nodes"]][:3]


def looked_at(harbour, page, paths, content):
    axe, found = Axe(), {}
    for path in paths:
        page.goto(harbour.address + path.format(**content))
        page.locator("main").wait_for()
        found[path] = wrong_with(page, axe)
    return {path: wrong for path, wrong in found.items() if wrong}


@pytest.mark.parametrize("look", LOOKS)
def test_no_page_shuts_anybody_out_or_overflows(harbour, enter, content, look):
    page = enter(**LOOKS[look])
    assert looked_at(harbour, page, OPERATORS, content) == {}


@pytest.mark.parametrize("look", LOOKS)
def test_nor_do_an_owners_pages(harbour, enter, content, look):
    page = enter("owner", **LOOKS[look])
    assert looked_at(harbour, page, OWNERS, content) == {}


@pytest.mark.parametrize("look", LOOKS)
def test_nor_does_what_is_shown_before_and_after_something_is_done(harbour, enter, content, look):
    page = enter(path=f"/dead/groups/{content['group']}", **LOOKS[look])
    axe = Axe()

    page.get_by_role("button", name="Redrive").click()
    page.get_by_role("heading", name="would be redriven").wait_for()
    assert wrong_with(page, axe) == []
    page.goto(f"{harbour.address}/dead/groups/{content['group']}")
    page.get_by_label("Canary").fill("999")
    page.locator("form[action='/dead/redrive']").evaluate("it => { it.noValidate = true; }")
    page.get_by_role("button", name="Redrive").click()
    page.locator(".said.wrong, .wrong").first.wait_for()
    assert wrong_with(page, axe) == []
    page.goto(f"{harbour.address}/upstreams/tide")
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keyboard").wait_for()
    assert list(serious(page, axe)) == []


@pytest.mark.parametrize("look", LOOKS)
def test_whoever_is_not_signed_in_sees_a_page_that_shuts_nobody_out(harbour, browser, look):
    context = browser.new_context(**LOOKS[look])
    page = context.new_page()
    page.goto(harbour.address)
    page.get_by_label("Access token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").wait_for()

    found = wrong_with(page, Axe())
    context.close()

    assert found == []


def test_pictures_on_a_phone_are_drawn_large_enough_to_read(harbour, enter, content):
    page = enter(path=f"/jobs/{content['item']}", **LOOKS["phone"])
    drawn = page.locator("svg.picture text:visible")

    assert drawn.count() > 0
    for at in range(drawn.count()):
        assert drawn.nth(at).evaluate("it => it.getBoundingClientRect().height") >= 10
