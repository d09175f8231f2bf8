"""The site: built strictly, whole, and asking nobody else for anything."""

import os
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.processes import cannot

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
FETCHED = {
    "script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src",
    "audio": "src", "embed": "src", "object": "data", "image": "href", "use": "href",
}  # fmt: skip
"""What a browser fetches by itself, and where that is named."""
PATIENCE_MS = 120_000


def build(folder, root=ROOT):
    tool = root / "tools" / "build_site.py"
    return subprocess.run(
        [sys.executable, str(tool), str(folder)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built once, by whichever process of the test run comes first."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, done = shared / "site", shared / "site-is-built"
    try:
        folder.mkdir()
    except FileExistsError:
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not done.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert done.exists(), "another process could not build it"
        return folder
    built = build(folder)
    assert built.returncode == 0, built.stdout + built.stderr
    assert built.stderr == ""
    assert len(built.stdout.splitlines()) == 1
    done.touch()
    return folder


class Fetches(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "link" and given.get("rel") in ("next", "prev", "canonical"):
            return
        where = given.get(FETCHED.get(tag, ""))
        self.found += [where] if where else []
        self.found += re.findall(r"url\(([^)]+)\)", given.get("style") or "")


def test_no_page_style_or_picture_is_fetched_from_another_host(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    elsewhere = {
        (page.name, where)
        for page in pages
        for where in Fetches(page).found
        if re.match(r"(\w+:)?//", where)
    }
    assert elsewhere == set()
    for style in site.rglob("*.css"):
        text = style.read_text("utf-8")
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']+", text) == [], style
    for picture in site.rglob("*.svg"):
        text = picture.read_text("utf-8")
        assert re.findall(r"(?:href|src)=[\"'](?:https?:)?//[^\"']+", text) == [], picture


def test_every_file_that_a_page_needs_is_there(site):
    for page in site.rglob("*.html"):
        for where in Fetches(page).found:
            path = where.partition("?")[0].partition("#")[0]
            if path and not path.startswith("data:") and page.name != "404.html":
                assert (page.parent / path).exists(), f"{page.name}: {where}"


def test_a_pipe_in_the_code_of_a_table_is_shown_as_one(site):
    page = (site / "upstreams.html").read_text("utf-8")
    assert "<code>seawall force NAME open|closed|auto</code>" in page


def test_no_picture_waits_for_a_script_of_others(site):
    """The theme would fetch Mermaid for such a block."""
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        assert "```mermaid" not in page.read_text("utf-8"), page


def test_every_page_of_docs_is_in_the_nav():
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    whole = ("decisions/", "reference/")
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    missing = [
        page
        for page in pages
        if not page.startswith(whole) and not re.search(rf"\b{page}$", nav, re.MULTILINE)
    ]
    assert missing == [], "add these to `nav:` in mkdocs.yml, where a reader would look for them"


def test_every_decision_is_in_the_list_of_decisions():
    listed = (DOCS / "decisions" / "README.md").read_text("utf-8")
    pages = [page.name for page in (DOCS / "decisions").glob("0*.md")]
    assert [page for page in pages if f"({page})" not in listed] == []


@pytest.fixture
def copy(tmp_path):
    """Enough of the project to build its site, to be spoiled."""
    for name in ("docs", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    for page in [*(tmp_path / "docs").rglob("*.md")]:
        if page.name not in ("index.md", "README.md", "tasks.md"):
            page.unlink()
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        (tmp_path / name).write_text(f"# {name}\n", "utf-8")
    for page in (tmp_path / "docs").rglob("*.md"):
        page.write_text("# A page\n\n## A heading\n", "utf-8")
    settings = (tmp_path / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[0]
    pages = "".join(
        f"\n  - {page.relative_to(tmp_path / 'docs').as_posix()}"
        for page in sorted((tmp_path / "docs").rglob("*.md"))
    )
    beside = "\n  - changelog.md\n  - contributing.md\n  - security.md\n"
    (tmp_path / "mkdocs.yml").write_text(f"{settings}\nnav:{pages}{beside}", "utf-8")
    return tmp_path


def test_what_leads_nowhere_fails_the_build(copy):
    links = "[a](gone.md), [b](tasks.md#nowhere), ![c](gone.svg), [d](/rooted.md)"
    (copy / "docs" / "index.md").write_text(f"# A page\n\n{links}\n", "utf-8")
    (copy / "docs" / "orphan.md").write_text("# Nobody leads here\n", "utf-8")
    with (copy / "mkdocs.yml").open("a", encoding="utf-8") as settings:
        settings.write("  - promised.md\n")

    done = build(copy / "site", copy)

    assert done.returncode != 0
    for said in (
        "a link 'gone.md'", "contain an anchor '#nowhere'", "a link 'gone.svg'", "'/rooted.md'",
        "- orphan.md", "'promised.md'",
    ):  # fmt: skip
        assert said in done.stdout


def test_it_can_be_read_and_searched_as_files_with_no_network(site):
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        cannot("there is no Chromium")
    from playwright.sync_api import sync_playwright

    asked, broken = [], []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.goto((site / "index.html").as_uri())
        page.locator("input.md-search__input").press_sequentially("fencing token")
        page.wait_for_selector(".md-search-result__item", timeout=PATIENCE_MS)
        assert "matching documents" in page.inner_text(".md-search-result__meta")
        for name in ("concepts.html", "workers.html", "reference/index.html"):
            page.goto((site / name).as_uri())
            assert page.evaluate("[...document.images].every(each => each.naturalWidth > 0)")
        browser.close()
    assert broken == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
