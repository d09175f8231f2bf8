"""How pages look: nothing that shuts somebody out, by axe; nothing that overflows a phone."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from seawall.store import NewRun

PAGES = [
    "/", "/jobs", "/jobs/{failed}", "/jobs/act?do=cancel&state=queued", "/dead",
    "/dead/groups/{group}", "/dead/letters/{failed}", "/runs", "/runs/{run}", "/runs/{run}/report",
    "/upstreams", "/upstreams/tide", "/policies", "/policies/ai-worker", "/fleet",
]  # fmt: skip
LOOKS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
}


@pytest.fixture(scope="module")
def content(harbour):
    """Something of each kind to look at."""
    harbour.remove("x.pdf")
    failed = [harbour.ask("print_page", path="x.pdf") for _ in range(3)]
    harbour.put("y.pdf")
    done = harbour.ask("print_page", path="y.pdf")
    for job in failed:
        harbour.until(job, "failed")
    harbour.until(done, "succeeded")
    harbour.ask("sail", to="nowhere")
    letter = harbour.store.dead_letter(failed[0])
    new = NewRun(pipeline="reports", name="looks", stages=("fetch", "ask"), terms="{}")
    run = harbour.store.store.start_run(new).run_id
    return {"failed": failed[0], "group": letter.fingerprint, "run": run}


@pytest.mark.parametrize("look", LOOKS)
def test_no_page_shuts_anybody_out_or_overflows(harbour, enter, content, look):
    page = enter(**LOOKS[look])
    axe, found = Axe(), []

    for path in PAGES:
        page.goto(harbour.address + path.format(**content))
        page.locator("#page").wait_for()
        for each in axe.run(page).response["violations"]:
            if each["impact"] in ("serious", "critical"):
                places = [node["target"] for node in each["nodes"]][:3]
                found.append((path, each["id"], places))
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if wide > 0:
            found.append((path, f"is {wide} px too wide", []))

    assert found == []


def test_whoever_is_not_signed_in_sees_a_page_that_shuts_nobody_out(harbour, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(harbour.address)

    serious = [
        each["id"]
        for each in Axe().run(page).response["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    context.close()

    assert serious == []
