"""Pages that stay open: they are drawn anew by themselves, and what a person is about to do stays."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import ONE, harbour_at
from tests.browser.steps import looked_at_again, refreshed, settled

ROWS = "table.rows tbody tr"


@pytest.fixture(scope="module", params=ONE)
def harbour(request):
    with harbour_at(request) as made:
        yield made


def failed(harbour, path, many=1):
    harbour.remove(path)
    jobs = [harbour.ask("print_page", path=path) for _ in range(many)]
    for job in jobs:
        harbour.until(job, "failed")
    return jobs


def test_what_was_just_done_is_told_until_it_is_closed(harbour, enter):
    (job,) = failed(harbour, "told.pdf")
    page = enter(path=f"/jobs/{job}")
    harbour.put("told.pdf")
    page.get_by_role("button", name="Retry").click()
    said = page.locator(".said")
    expect(said).to_contain_text(f"Job {job} is retried")
    expect(page.locator(".head .chip")).to_have_text("succeeded")
    refreshed(page, times=2)
    expect(said).to_contain_text(f"Job {job} is retried")

    said.get_by_role("button", name="Close").click()

    expect(said).to_have_count(0)
    refreshed(page)
    expect(said).to_have_count(0)


def test_what_was_typed_stays_while_all_around_it_changes(harbour, enter):
    jobs = failed(harbour, "typed.pdf", many=2)
    group = harbour.store.dead_letter(jobs[0]).fingerprint
    page = enter(path=f"/dead/groups/{group}")
    settled(page)
    count = page.locator(".figure", has_text="failed alike").locator(".value")
    expect(count).to_have_text("2")
    expect(page.get_by_label("Canary")).to_have_value("2")

    page.get_by_label("Canary").fill("1")
    page.get_by_label("from the first stage").check()
    page.get_by_label("Note").fill("not yet")
    page.locator("h1").click()  # nothing has the focus
    failed(harbour, "typed.pdf")

    expect(count).to_have_text("3")
    expect(page.get_by_role("button", name="Dismiss 3 letters")).to_be_visible()
    expect(page.get_by_label("Canary")).to_have_value("1")
    expect(page.get_by_label("from the first stage")).to_be_checked()
    expect(page.get_by_label("Note")).to_have_value("not yet")


def test_an_open_menu_stays_open_with_what_is_in_it(harbour, enter):
    page = enter(path="/upstreams/tide")
    settled(page)
    page.locator("summary", has_text="Hold").click()
    page.get_by_label("Why, for others to read").first.fill("spring tide")

    harbour.put("menu.pdf")
    harbour.ask("print_page", path="menu.pdf")
    refreshed(page, times=2)

    expect(page.get_by_role("button", name="Hold tide")).to_be_visible()
    expect(page.get_by_label("Why, for others to read").first).to_have_value("spring tide")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Hold tide")).to_be_hidden()


def test_an_answer_from_before_somebody_typed_is_dropped(harbour, enter):
    """It was asked for all jobs; meanwhile one has been found, and stays the only one."""
    harbour.put("late.pdf")
    jobs = [harbour.ask("print_page", path="late.pdf", note=f"oyster-{n}") for n in range(3)]
    harbour.until(jobs[-1], "succeeded")
    page = enter(path="/jobs")
    settled(page)
    late = []
    page.route(
        re.compile("/jobs$"), lambda route: late.append(route) if not late else route.continue_()
    )
    harbour.ask("print_page", path="late.pdf")
    page.wait_for_function("document.querySelector('.live').textContent === 'live'")
    for _ in range(600):
        if late:
            break
        page.wait_for_timeout(50)

    page.get_by_label("Argument contains").press_sequentially("oyster-1")
    expect(page.locator(ROWS)).to_have_count(1)
    page.evaluate(
        """rows => {
            const count = () => { window.most = Math.max(window.most ?? 0, document.querySelectorAll(rows).length); };
            new MutationObserver(count).observe(document.body, { childList: true, subtree: true });
        }""",
        ROWS,
    )
    with page.expect_response(re.compile("/jobs$")):
        late[0].continue_()
    refreshed(page)

    assert page.evaluate("window.most ?? 1") == 1
    expect(page.locator(f"#job-{jobs[1]}")).to_be_visible()
    expect(page.get_by_label("Argument contains")).to_have_value("oyster-1")


def test_events_that_were_refused_come_back_by_themselves(harbour, enter):
    page = enter(path="/jobs")
    page.route("**/api/events", lambda route: route.fulfill(status=503, body="too many"))
    page.reload()
    expect(page.locator(".live")).to_have_text("reconnecting")

    page.unroute("**/api/events")

    settled(page)
    harbour.put("back.pdf")
    job = harbour.ask("print_page", path="back.pdf")
    expect(page.locator(f"#job-{job} .chip")).to_have_text("succeeded")


def test_a_page_says_as_of_when_it_is_while_the_store_does_not_answer(harbour, enter):
    page = enter(path="/jobs")
    settled(page)
    away = re.compile("/jobs$")
    page.route(away, lambda route: route.fulfill(status=503, body="the store does not answer"))
    looked_at_again(page)

    expect(page.locator(".live")).to_have_text(
        re.compile(r"the store does not answer: as of .*\d:\d\d")
    )
    expect(page.locator("#heard")).to_contain_text("This page shows how it was at")
    page.unroute(away)
    looked_at_again(page)

    expect(page.locator(".live")).to_have_text("live")
    expect(page.locator("#heard")).to_have_text("The page is live again.")


def test_a_server_that_comes_back_is_heard_again(harbour, enter):
    page = enter(path="/jobs")
    settled(page)
    harbour.stop_serving()
    looked_at_again(page)
    try:
        expect(page.locator(".live")).to_contain_text("the server does not answer: as of")
    finally:
        harbour.serve()

    expect(page.locator(".live")).to_have_text("live")
    harbour.put("again.pdf")
    job = harbour.ask("print_page", path="again.pdf")
    expect(page.locator(f"#job-{job} .chip")).to_have_text("succeeded")


def test_what_is_found_is_said_aloud_once_and_no_time_ticks_in_it(harbour, enter):
    harbour.put("loud.pdf")
    job = harbour.ask("print_page", path="loud.pdf", note="trumpet")
    harbour.until(job, "succeeded")
    page = enter(path="/jobs")
    settled(page)

    page.get_by_label("Argument contains").fill("trumpet")

    expect(page.locator("#heard")).to_have_text("1 job shown")
    for path in ("/", "/jobs", f"/jobs/{job}", "/dead", "/runs", "/upstreams", "/fleet"):
        page.goto(harbour.address + path)
        ticking = page.locator("[role=status] time, [role=alert] time, [aria-live] time")
        expect(ticking).to_have_count(0)


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_switch_says_which_colours_are_on_and_every_page_keeps_to_them(harbour, enter, system):
    page = enter(color_scheme=system)
    switch = page.get_by_role("button", name="Colours")
    expect(switch).to_have_text("Colours: as the system")
    paper = "getComputedStyle(document.body).backgroundColor"
    as_the_system = page.evaluate(paper)
    switch.click()
    if system == "dark":
        switch.click()
    chosen = "light" if system == "dark" else "dark"
    expect(switch).to_have_text(f"Colours: {chosen}")
    other = page.evaluate(paper)
    assert other != as_the_system

    for path in ("/jobs", "/jobs/999999999"):
        page.goto(harbour.address + path)
        assert page.evaluate(paper) == other, path
    page.goto(harbour.address)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Access token")).to_be_visible()
    assert page.evaluate(paper) == other


def test_charts_have_words_for_whoever_does_not_see_them(harbour, enter):
    harbour.put("chart.pdf")
    harbour.until(harbour.ask("print_page", path="chart.pdf"), "succeeded")
    page = enter()
    settled(page)

    expect(page.locator(".chart canvas").first).to_be_visible()
    charts = page.locator(".chart[role=img]")
    expect(charts.nth(0)).to_have_attribute(
        "aria-label",
        re.compile(r"^Jobs that ended, a minute: succeeded [\d.]+, [\d.]+ at most; failed"),
    )
    expect(charts.nth(1)).to_have_attribute(
        "aria-label", re.compile(r"^Jobs that came in and ended")
    )
    expect(page.get_by_role("heading", name="How they ended")).to_be_visible()
