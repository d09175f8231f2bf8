"""What people do with the dashboard, as they do it: in a browser, live, by keyboard, without script."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.steps import refreshed, settled, tab_to


def test_a_failed_job_is_found_understood_retried_and_seen_to_succeed(harbour, enter):
    harbour.remove("a.pdf")
    job = harbour.ask("print_page", path="a.pdf")
    harbour.until(job, "failed")
    page = enter(path="/jobs")
    settled(page)

    page.get_by_label("State").select_option("failed")
    page.get_by_label("Task").fill("print_page")
    page.wait_for_url(re.compile("state=failed.*task=print_page"))
    page.get_by_role("link", name=str(job), exact=True).click()
    expect(page.locator("ul.why")).to_contain_text("FileNotFoundError")
    settled(page)

    harbour.put("a.pdf")
    page.get_by_role("button", name="Retry").click()

    expect(page.locator(".said")).to_contain_text("is retried")
    expect(page.locator(".head .chip")).to_have_text("succeeded")  # nobody has reloaded it
    expect(page.locator("pre", has_text="printed")).to_be_visible()


def test_what_is_asked_for_meanwhile_shows_by_itself(harbour, enter):
    harbour.put("b.pdf")
    page = enter(path="/jobs")
    settled(page)

    job = harbour.ask("print_page", path="b.pdf")

    row = page.locator(f"#job-{job}")
    expect(row).to_be_visible()
    expect(row.locator(".chip")).to_have_text("succeeded")


def test_filters_work_as_one_types_and_the_list_stays_filtered(harbour, enter):
    harbour.put("c.pdf")
    jobs = [harbour.ask("print_page", path="c.pdf", note=f"needle-{n}") for n in range(3)]
    harbour.until(jobs[-1], "succeeded")
    page = enter(path="/jobs")
    settled(page)

    page.get_by_label("Argument contains").press_sequentially("needle-1")

    expect(page.locator("table.rows tbody tr")).to_have_count(1)
    expect(page.locator(f"#job-{jobs[1]}")).to_be_visible()
    page.get_by_label("Argument contains").press_sequentially("x")  # it goes on from there
    page.wait_for_url(re.compile("argument=needle-1x"))
    expect(page.get_by_text("No job matches")).to_be_visible()
    page.get_by_label("Argument contains").press("Backspace")
    page.wait_for_url(re.compile("argument=needle-1$"))
    expect(page.locator(f"#job-{jobs[1]}")).to_be_visible()
    harbour.ask("print_page", path="c.pdf")  # something happens: the page is drawn anew
    refreshed(page, times=2)
    expect(page.get_by_label("Argument contains")).to_have_value("needle-1")
    expect(page.locator("table.rows tbody tr")).to_have_count(1)


def test_a_group_is_sent_again_with_a_canary(harbour, enter):
    harbour.remove("group.pdf")
    jobs = [harbour.ask("print_page", path="group.pdf") for _ in range(6)]
    for job in jobs:
        harbour.until(job, "failed")
    page = enter(path="/dead")
    page.get_by_label("Task").fill("print_page")
    page.locator("article", has_text="group.pdf").get_by_role("link").first.click()
    expect(page.locator("tbody tr")).to_have_count(6)

    page.get_by_role("button", name="Redrive").click()
    expect(page.locator("h1")).to_have_text("6 jobs would be redriven")
    page.get_by_role("button", name="Redrive 6 jobs").click()
    expect(page.locator(".said.wrong")).to_contain_text("held back")  # the file is still missing
    assert sum(harbour.state(job) == "failed" for job in jobs) >= 3

    harbour.put("group.pdf")
    for job in jobs:
        harbour.until(job, "failed")
    page.get_by_role("button", name="Redrive").click()
    page.get_by_role("button", name="Redrive 6 jobs").click()

    expect(page.locator(".said")).to_contain_text("6 jobs redriven")
    for job in jobs:
        harbour.until(job, "succeeded")


def test_an_outage_is_told_of_and_its_end_shows_by_itself(harbour, enter):
    page, anns = enter(), enter("owner", "/jobs")
    settled(page)
    settled(anns)
    harbour.put("storm")
    try:
        jobs = [harbour.ask("sail", owner="ann", to=f"port {n}") for n in range(8)]
        banner = page.locator(".banner", has_text="tide")
        said = r"tide is not answering: [78] jobs wait and will resume automatically \(next try (in \d+ s|now)\)\."
        expect(banner.locator("strong")).to_have_text(re.compile(said))
        expect(page.locator("#heard")).to_contain_text("tide is not answering")
        expect(banner.get_by_role("link", name="Look")).to_have_attribute("href", "/upstreams/tide")
        card = page.locator("a.figure", has_text="tide")
        expect(card.locator(".chip")).to_have_text(re.compile("held|being tried"))
        hers = anns.locator(".banner", has_text="tide")
        expect(hers).to_contain_text("your jobs that need it wait and will resume automatically")
        expect(hers.get_by_role("link")).to_have_count(0)  # upstreams are not hers to see
    finally:
        harbour.remove("storm")

    expect(page.locator(".banner")).to_have_count(0)
    expect(page.locator("#heard")).to_have_text("tide is not held any more.")
    for job in jobs:
        harbour.until(job, "succeeded")


def test_an_owner_sees_and_deals_with_only_his_own(harbour, enter):
    mine = harbour.ask("print_page", owner="ann", path="mine.pdf")
    other = harbour.ask("print_page", owner="bob", key="bobs", path="other.pdf")
    harbour.until(mine, "failed")
    harbour.until(other, "failed")
    group = harbour.store.dead_letter(other).fingerprint
    page = enter("owner")

    expect(page.locator("h1")).to_have_text("Your jobs")
    expect(page.get_by_text("mine.pdf").first).to_be_visible()
    for path in (
        "/",
        "/jobs",
        "/jobs?owner=bob",
        "/jobs?key=bobs",
        "/jobs?owner=bob&key=bobs",
        "/dead",
    ):
        assert page.goto(harbour.address + path).status == 200
        expect(page.get_by_text("other.pdf")).to_have_count(0)
        expect(page.locator(f"#job-{other}")).to_have_count(0)
    for path in (f"/jobs/{other}", f"/dead/letters/{other}"):
        assert page.goto(harbour.address + path).status == 404
    page.goto(f"{harbour.address}/dead/groups/{group}?owner=bob")
    expect(page.get_by_text("other.pdf")).to_have_count(0)
    assert page.goto(f"{harbour.address}/upstreams").status == 403
    expect(page.get_by_role("link", name="To the overview")).to_be_visible()

    page.goto(f"{harbour.address}/jobs/{mine}")
    page.get_by_role("link", name="Dismiss").click()
    expect(page.get_by_role("button", name="Redrive")).to_have_count(0)
    page.get_by_label("Note").fill("never mind")
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".said")).to_have_text(re.compile("1 dead letter dismissed"))
    assert str(harbour.store.dead_letter(mine).state) == "dismissed"
    assert str(harbour.store.dead_letter(other).state) == "open"


def test_whoever_may_only_read_is_led_everywhere_and_can_change_nothing(harbour, enter):
    harbour.remove("read.pdf")
    job = harbour.ask("print_page", path="read.pdf")
    harbour.until(job, "failed")
    page = enter("read-only", f"/jobs/{job}")

    page.get_by_role("link", name="Its dead letter").click()
    expect(page.locator("h1")).to_contain_text(f"Mend job {job}")
    for path in (f"/dead/letters/{job}", f"/jobs/{job}", "/upstreams/tide", "/fleet"):
        page.goto(harbour.address + path)
        expect(page.locator("main form[method=post]")).to_have_count(0)


def test_retry_is_disabled_with_the_reason_where_the_source_is_gone(harbour, enter):
    job = harbour.ask("print_page", path="lost.pdf")
    harbour.until(job, "failed")
    page = enter(path=f"/jobs/{job}")

    expect(page.get_by_role("button", name="Retry")).to_be_disabled()
    expect(page.locator("#no-retry")).to_contain_text("the file is gone")


def test_everything_by_keyboard(harbour, enter):
    harbour.remove("keys.pdf")
    job = harbour.ask("print_page", path="keys.pdf")
    harbour.until(job, "failed")
    page = enter()
    settled(page)
    keys = page.keyboard

    keys.press("?")
    expect(page.get_by_role("heading", name="Keyboard")).to_be_visible()
    keys.press("Escape")
    keys.press("g")
    keys.press("j")
    page.wait_for_url(re.compile("/jobs$"))
    keys.press("/")
    keys.type("print_page")
    page.wait_for_url(re.compile("task=print_page"))
    expect(page.locator("table.rows tbody tr").first).to_contain_text(str(job))
    keys.press("Escape")
    keys.press("j")
    keys.press("Enter")
    page.wait_for_url(re.compile(f"/jobs/{job}$"))
    harbour.put("keys.pdf")
    keys.press("r")
    keys.press("Enter")

    expect(page.locator(".said")).to_contain_text("is retried")
    expect(page.locator(".head .chip")).to_have_text("succeeded")


def test_a_group_is_redriven_and_another_dismissed_by_keyboard(harbour, enter):
    harbour.remove("tabbed.pdf")
    jobs = [harbour.ask("stamp", path="tabbed.pdf") for _ in range(2)]
    for job in jobs:
        harbour.until(job, "failed")
    group = harbour.store.dead_letter(jobs[0]).fingerprint
    page = enter()
    settled(page)
    keys = page.keyboard

    keys.press("g")
    keys.press("d")
    page.wait_for_url(re.compile("/dead$"))
    expect(page.locator(f"#group-{group}")).to_be_visible()
    keys.press("j")
    for _ in range(30):
        if page.evaluate("document.activeElement.closest('article').id") == f"group-{group}":
            break
        keys.press("j")
    keys.press("Enter")
    page.wait_for_url(re.compile(group))
    tab_to(page, page.get_by_label("Canary"))
    keys.press("Control+A")
    keys.type("0")
    keys.press("Escape")
    keys.press("r")
    keys.press("Enter")
    expect(page.locator("h1")).to_have_text("2 jobs would be redriven")
    expect(page.get_by_role("button", name="Redrive 2 jobs")).to_be_focused()
    keys.press("Enter")
    expect(page.locator(".said")).to_contain_text("2 jobs redriven")
    for job in jobs:
        harbour.until(job, "failed")  # there is still no ink

    page.goto(f"{harbour.address}/dead/groups/{group}")
    tab_to(page, page.get_by_label("Note"))
    keys.type("nobody writes any more")
    keys.press("Enter")
    expect(page.locator(".said")).to_contain_text("2 dead letters dismissed")
    letter = harbour.store.dead_letter(jobs[1])
    assert (str(letter.state), letter.note) == ("dismissed", "nobody writes any more")


def test_an_upstream_is_held_and_resumed_by_keyboard(harbour, enter):
    page = enter()
    settled(page)
    keys = page.keyboard

    keys.press("g")
    keys.press("u")
    page.wait_for_url(re.compile("/upstreams$"))
    tab_to(page, page.locator("a.upstream", has_text="tide"))
    keys.press("Enter")
    page.wait_for_url(re.compile("/upstreams/tide$"))
    tab_to(page, page.locator("summary", has_text="Hold"))
    keys.press("Enter")
    tab_to(page, page.get_by_label("Why, for others to read").first)
    keys.type("spring tide")
    keys.press("Enter")
    expect(page.locator(".said")).to_have_text(re.compile("tide is held for 10 min."))
    expect(page.locator(".banner")).to_contain_text("tide is held by hand")
    expect(page.locator(".banner")).to_contain_text("spring tide")

    tab_to(page, page.get_by_role("button", name="Resume"))
    keys.press("Enter")
    expect(page.locator(".said")).to_contain_text("its breaker's affair again")
    expect(page.locator(".banner")).to_have_count(0)


def test_the_first_tab_skips_to_the_content_and_focus_is_seen(harbour, enter):
    page = enter(path="/jobs")

    page.keyboard.press("Tab")

    focused = page.locator(":focus")
    expect(focused).to_have_text("Skip to the content")
    assert focused.evaluate("it => getComputedStyle(it).outlineStyle") != "none"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "page"


def test_without_a_script_everything_can_be_read_and_done(harbour, enter):
    harbour.remove("plain.pdf")
    job = harbour.ask("print_page", path="plain.pdf")
    harbour.until(job, "failed")
    page = enter(path="/jobs", java_script_enabled=False)

    page.get_by_label("State").select_option("failed")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name=str(job), exact=True).click()
    expect(page.locator("ul.why")).to_contain_text("FileNotFoundError")
    expect(page.locator("svg.picture").first).to_be_visible()
    harbour.put("plain.pdf")
    page.get_by_role("button", name="Retry").click()

    expect(page.locator(".said")).to_contain_text("is retried")
    harbour.until(job, "succeeded")
    for _ in range(60):  # what was seen is shown again for a moment, and longer on a busy machine
        page.reload()
        if page.locator(".head .chip").inner_text() == "succeeded":
            break
        page.wait_for_timeout(500)
    expect(page.locator(".head .chip")).to_have_text("succeeded")
    page.get_by_role("button", name="Sign out").click()
    page.goto(harbour.address)
    page.wait_for_url(re.compile("/login"))


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_times_are_told_in_the_viewers_zone(harbour, enter, zone):
    harbour.put("d.pdf")
    job = harbour.ask("print_page", path="d.pdf")
    harbour.until(job, "succeeded")
    page = enter(path=f"/jobs/{job}", timezone_id=zone, locale="en-GB")

    shown = page.locator("time.exact").first
    hour = shown.evaluate(
        "(it, zone) => new Date(it.dateTime).toLocaleTimeString('en-GB', {timeZone: zone})", zone
    )
    expect(shown).to_contain_text(hour)
    expect(page.locator("time:not(.exact)").first).to_have_attribute("title", re.compile(hour[:5]))
