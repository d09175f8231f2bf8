"""The converter in a real browser: upload, Retry, the banner, and whose files they are."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from examples.converter.__main__ import PDF
from examples.converter.app import app, source_of
from examples.converter.peers import free_port
from tests.browser.conftest import FLAGS, PATIENCE_MS, chromium
from tests.examples.converter_world import at_work

BANNER = "Converter busy — jobs will resume automatically."


@pytest.fixture(scope="module")
def browser():
    """A browser for this module: its event loop runs in this thread for as long."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield made
        made.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with at_work(tmp_path_factory.mktemp("converter"), RETRY_MAX_ATTEMPTS="8") as made:
        port = free_port()
        made.address = f"http://127.0.0.1:{port}"
        words = ("uvicorn", "examples.converter.web:api", "--port", str(port))
        made.peers.start("web", *words, health=f"{made.address}/health")
        made.worker()
        yield made


@pytest.fixture
def page(browser, shop):
    """A page of somebody who comes for the first time; nothing may go wrong in it."""
    shop.gateway.is_well()
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    made, wrong = context.new_page(), []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on(
        "console",
        lambda said: wrong.append(said.text) if said.type == "error" and "Failed to load" not in said.text else None,
    )  # fmt: skip
    made.goto(shop.address)
    yield made
    assert wrong == [], "the browser's console is clean"
    context.close()


def upload(page, name, content=PDF):
    file = {"name": name, "mimeType": "application/pdf", "buffer": content}
    page.get_by_label("A PDF").set_input_files(file)
    page.get_by_role("button", name="Convert").click()


def row(page, name):
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))


def is_now(page, name, status):
    expect(row(page, name)).to_have_attribute("data-status", status)


def test_a_pdf_is_uploaded_and_its_xml_fetched(page, browser, shop):
    expect(page.get_by_text("No files yet.")).to_be_visible()
    upload(page, "sea.pdf")
    is_now(page, "sea.pdf", "complete")
    with page.expect_download() as fetched:
        row(page, "sea.pdf").get_by_role("link", name="XML").click()
    assert fetched.value.suggested_filename == "sea.xml"
    assert "The sea is calm" in fetched.value.path().read_text()

    upload(page, "page.html", b"<html></html>")
    expect(page.get_by_role("status")).to_have_text("This file is not a PDF. (NOT_PDF)")
    expect(page.get_by_role("rowheader")).to_have_count(1)

    somebody_else = browser.new_context().new_page()
    somebody_else.goto(shop.address)
    expect(somebody_else.get_by_text("No files yet.")).to_be_visible()
    somebody_else.context.close()


def test_retry_sends_a_failed_job_again_unless_its_source_is_gone(page, shop):
    shop.gateway.told(status=422, error="INVALID_MAPPING")
    upload(page, "odd.pdf")
    is_now(page, "odd.pdf", "failed")
    expect(row(page, "odd.pdf")).to_contain_text("could not accept this file. (GW_4XX)")
    retry = row(page, "odd.pdf").get_by_role("button", name="Retry")
    expect(retry).to_be_enabled()
    assert Axe().run(page).response["violations"] == []

    (job,) = app.jobs(state="failed")
    source = source_of(app.job(job.id).arguments()["document"])
    source.rename(source.with_suffix(".away"))
    expect(retry).to_be_disabled()
    expect(row(page, "odd.pdf")).to_contain_text("is not there any more: upload it again")
    source.with_suffix(".away").rename(source)
    expect(retry).to_be_enabled()

    shop.gateway.is_well()
    retry.click()
    is_now(page, "odd.pdf", "complete")


def test_a_banner_stands_while_the_gateway_is_held_and_goes_by_itself(page, shop):
    banner = page.get_by_role("alert")
    expect(banner).to_have_count(0)
    shop.gateway.told(status=502)
    names = [f"{number}.pdf" for number in range(3)]
    for name in names:
        upload(page, name)
        expect(row(page, name)).to_be_visible()
    expect(banner).to_have_text(BANNER)
    assert Axe().run(page).response["violations"] == []
    shop.gateway.is_well()
    expect(banner).to_have_count(0)
    for name in names:
        is_now(page, name, "complete")
