"""What the documents name exists, and every setting is documented."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from mcp_app.conf import Settings
from mcp_app.contrib.web_tools import conf as web_tools
from mcpsite.environment import REMEDIES

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", [*REMEDIES, *(item.name.upper() for item in fields(Settings))])
def test_every_setting_is_documented(name: str) -> None:
    assert f"`{name}`" in SETTINGS


@pytest.mark.parametrize("name", sorted(web_tools.KEYS))
def test_every_setting_of_the_web_tools_is_documented(name: str) -> None:
    assert f"`{name}`" in SETTINGS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:tests|mcp_app|mcpsite|docs|deploy|benchmarks)/[\w./-]*)`", page.read_text())
    assert not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_a_page_wrap_at_120(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in prose.splitlines() if not line.lstrip().startswith("|")]
    assert not [line for line in lines if len(line) > 120]
