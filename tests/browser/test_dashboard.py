"""What people do with the dashboard, as they do it: in a browser, live, by keyboard, without script."""

import re

import pytest
from playwright.sync_api import expect


def settled(page):
    """The page listens: what happens from now on shows by itself."""
    expect(page.locator(".live").first).to_have_text("live")


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

    expect(page.locator(".said")).to_contain_text("sent again")
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


def test_filters_work_as_one_types_and_what_was_typed_stays(harbour, enter):
    harbour.put("c.pdf")
    jobs = [harbour.ask("print_page", path="c.pdf", note=f"needle-{n}") for n in range(3)]
    harbour.until(jobs[-1], "succeeded")
    page = enter(path="/jobs")
    settled(page)

    page.get_by_label("Argument contains").press_sequentially("needle-1")

    expect(page.locator("table.rows tbody tr")).to_have_count(1)
    expect(page.locator(f"#job-{jobs[1]}")).to_be_visible()
    harbour.ask("print_page", path="c.pdf")  # something happens: the page is drawn anew
    page.wait_for_timeout(2_500)
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
    expect(page.locator("h1")).to_have_text("6 jobs would be sent again")
    page.get_by_role("button", name="Send 6 jobs again").click()
    expect(page.locator(".said.wrong")).to_contain_text("held back")  # the file is still missing
    assert sum(harbour.state(job) == "failed" for job in jobs) >= 3

    harbour.put("group.pdf")
    for job in jobs:
        harbour.until(job, "failed")
    page.get_by_role("button", name="Redrive").click()
    page.get_by_role("button", name="Send 6 jobs again").click()

    expect(page.locator(".said")).to_contain_text("6 jobs sent again")
    for job in jobs:
        harbour.until(job, "succeeded")


def test_an_outage_is_told_of_and_its_end_shows_by_itself(harbour, enter):
    page = enter()
    settled(page)
    harbour.put("storm")
    try:
        jobs = [harbour.ask("sail", to=f"port {n}") for n in range(8)]
        banner = page.locator(".banner", has_text="tide is not answering")
        expect(banner).to_contain_text("will resume automatically")
        expect(banner).to_contain_text("jobs wait")
    finally:
        harbour.remove("storm")

    expect(page.locator(".banner")).to_have_count(0)
    for job in jobs:
        harbour.until(job, "succeeded")


def test_an_owner_sees_only_his_own(harbour, enter):
    mine = harbour.ask("print_page", owner="ann", path="mine.pdf")
    other = harbour.ask("print_page", owner="bob", path="other.pdf")
    harbour.until(mine, "failed")
    harbour.until(other, "failed")
    page = enter("owner")

    expect(page.locator("h1")).to_have_text("Your jobs")
    expect(page.get_by_text("mine.pdf").first).to_be_visible()
    for path in ("/", "/jobs", "/dead", f"/jobs?owner=bob&key={other}"):
        page.goto(harbour.address + path)
        expect(page.get_by_text("other.pdf")).to_have_count(0)
    assert page.goto(f"{harbour.address}/jobs/{other}").status == 404
    assert page.goto(f"{harbour.address}/upstreams").status == 403
    expect(page.get_by_role("link", name="To the overview")).to_be_visible()


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

    expect(page.locator(".said")).to_contain_text("sent again")
    expect(page.locator(".head .chip")).to_have_text("succeeded")


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

    expect(page.locator(".said")).to_contain_text("sent again")
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
