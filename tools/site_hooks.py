"""What the site has besides the pages of docs/ that the nav names one by one.

MkDocs calls these functions while it builds. Changelog, contributing and security stand beside the
README, where people look for them; the site shows the same text, with its own links.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
BESIDE_THE_README = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
WHOLE_FOLDERS = {"decisions/": "README.md", "reference/": "index.md"}
"""Folders that the nav names as one, and the page that each begins with."""
_INTO_DOCS = re.compile(r"\]\(docs/")
_CODE = re.compile(r"`[^`\n]+`")
_BESIDE = re.compile(r"\]\((CHANGELOG|CONTRIBUTING|SECURITY)\.md")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """In the nav, `decisions/` stands for all of them, in order."""
    config.nav = _expanded(config.nav)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Changelog and its neighbours become pages."""
    for name in BESIDE_THE_README:
        text = _INTO_DOCS.sub("](", (ROOT / name).read_text("utf-8"))
        text = _BESIDE.sub(lambda link: f"]({link[1].lower()}.md", text)
        files.append(File.generated(config, name.lower(), content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """A pipe in code in a table: elsewhere it must be escaped there, and here it must not be."""
    return _CODE.sub(lambda code: code[0].replace("\\|", "|"), markdown)


def _expanded(nav: Any) -> Any:
    match nav:
        case list():
            return [_expanded(each) for each in nav]
        case dict():
            return {name: _expanded(each) for name, each in nav.items()}
        case str() if nav in WHOLE_FOLDERS:
            first = WHOLE_FOLDERS[nav]
            pages = {each.name for each in (ROOT / "docs" / nav).glob("*.md")}
            return [f"{nav}{name}" for name in (first, *sorted(pages - {first}))]
        case _:
            return nav
