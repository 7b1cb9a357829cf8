"""Documents: every named thing exists, every setting is documented, and the site contains every page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcp_app.conf import Settings
from mcp_app.contrib.web_tools import conf as web_tools
from mcp_app.metrics.families import RARE
from mcp_app.protocol.refusals import Code
from mcpsite.environment import REMEDIES
from tests.architecture.source import SOURCES

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
DOCUMENTS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = sorted([*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *DOCUMENTS])
BLOCK = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"^```\w*\n# (deploy/\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def pages_of(navigation: Any) -> Iterator[str]:
    """Yield the pages in a part of the site's navigation."""
    if isinstance(navigation, str):
        yield navigation
    else:
        for part in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from pages_of(part)


def anchors(page: Path) -> set[str]:
    """Return the headings of a page as anchors, in the form shared by code hosts and the site."""
    headings = re.findall(r"^#+ +(.*)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {heading.replace(" ", "-") for heading in plain if heading.isascii() and "  " not in heading}


@pytest.mark.parametrize("name", [*REMEDIES, *(item.name.upper() for item in fields(Settings))])
def test_every_setting_is_documented(name: str) -> None:
    assert f"`{name}`" in SETTINGS


@pytest.mark.parametrize("name", sorted(web_tools.KEYS))
def test_every_web_tools_setting_is_documented(name: str) -> None:
    assert f"`{name}`" in SETTINGS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_points_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_of_a_link_is_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
    targets = [(page.parent / path if path else page, anchor) for path, anchor in links]
    assert not [anchor for target, anchor in targets if anchor not in anchors(target)]


def test_site_navigation_has_every_page_once() -> None:
    configuration = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    found = sorted(pages_of(configuration["nav"]))
    assert found == sorted(str(page.relative_to(ROOT / "docs")) for page in DOCUMENTS)


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_of_a_site_page_leaves_the_site(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert not [link for link in links if not (page.parent / link).resolve().is_relative_to(ROOT / "docs")]


def test_quoted_files_are_quoted_verbatim() -> None:
    quoted = [match for page in DOCUMENTS for match in QUOTED.findall(page.read_text())]
    assert len(quoted) > 3
    assert not [path for path, text in quoted if (ROOT / path).read_text() != text]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_named_in_a_page_exists(page: Path) -> None:
    named = re.findall(r"`((?:tests|mcp_app|mcpsite|docs|deploy|benchmarks)/[\w./-]*)`", page.read_text())
    assert not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_lines_wrap_at_120(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in prose.splitlines() if not line.lstrip().startswith("|")]
    assert not [line for line in lines if len(line) > 120]


def test_every_refusal_code_is_documented_in_order() -> None:
    table = (ROOT / "docs/refusals.md").read_text().partition("## Codes")[2]
    assert re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE) == [code.value for code in Code]


def test_every_guarantee_has_one_id_and_one_row() -> None:
    text = (ROOT / "docs/guarantees.md").read_text()
    rows = re.findall(r"^\| \[?([A-Z]\d+)\b", text, re.MULTILINE)
    linked = re.findall(r"^\| \[([A-Z]\d+)\]", text, re.MULTILINE)
    sections = re.findall(r"^### ([A-Z]\d+):", text, re.MULTILINE)
    assert len(rows) > 50
    assert len({*rows}) == len(rows)
    assert sorted(sections) == sorted(linked)


def test_guarantee_cells_have_25_words_at_most() -> None:
    text = (ROOT / "docs/guarantees.md").read_text()
    cells = [cell for line in text.splitlines() if line.startswith("|") for cell in line.split("|")]
    assert not [cell for cell in cells if len(cell.split()) > 25]


def test_every_metric_is_documented() -> None:
    names = re.findall(r'"(mcp_[a-z_]+)"', (ROOT / "mcp_app/metrics/families.py").read_text())
    table = (ROOT / "docs/operate/metrics.md").read_text()
    documented = set(re.findall(r"`(mcp_[a-z_]+)`", table))
    assert len(names) > 20
    assert not [name for name in names if not {name, f"{name}_total", f"{name}_info"} & documented]


def test_every_counted_event_has_a_metric() -> None:
    counted = {
        event
        for path in SOURCES
        for event in re.findall(r"(?m)(?:tally\.|^ +)note\(\s*\"(\w+)\"", path.read_text())
    }
    assert counted == RARE.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_paragraph_is_longer_than_five_lines(page: Path) -> None:
    prose = BLOCK.sub("", page.read_text())
    parts = re.split(r"\n(?:\s*\n|(?= *(?:[-*] |\d+\. |\||#)))", prose)
    assert not [part for part in parts if part.strip().count("\n") >= 5]
