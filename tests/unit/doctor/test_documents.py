"""Doctor check of client metadata documents; no test reaches the internet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_app.doctor.documents import reach
from mcp_app.doctor.finding import Level
from mcp_app.doctor.installation import Installation
from tests.unit.egress.test_proxy import proxy_to, use

INSTALLATION: Any = Installation


@pytest.fixture(autouse=True)
def _offers_oauth(settings: Any) -> None:
    base = "http://127.0.0.1:8000"
    settings.MCP = {**settings.MCP, "AUTH": "required", "OAUTH": True, "PUBLIC_URL": base}


@pytest.mark.requirement("AUTH-42", "AUTH-43")
@pytest.mark.parametrize(
    ("changed", "level", "words", "remedy"),
    [
        ({}, Level.WARNING, "clients register instead", "OAUTH_DOCUMENTS=off"),
        ({"OAUTH_DOCUMENTS": "on"}, Level.ERROR, "cannot connect", "OAUTH_DOCUMENTS=auto"),
        ({"OAUTH_REGISTRATION": False}, Level.ERROR, "cannot connect", "OAUTH_REGISTRATION=on"),
        ({"OAUTH_DOCUMENTS": "off"}, Level.OK, "clients register", ""),
        ({"OAUTH_DOCUMENT_HOSTS": []}, Level.OK, "clients register", ""),
        ({"OAUTH_DOCUMENT_HOSTS": ["claude.ai"]}, Level.OK, "claude.ai are accepted", ""),
        ({"OAUTH_DOCUMENTS": "off", "OAUTH_REGISTRATION": False}, Level.OK, "added by an administrator", ""),
    ],
)
async def test_unreachable_internet_is_reported_with_login_alternative(
    settings: Any, changed: dict[str, Any], level: Level, words: str, remedy: str
) -> None:
    # A proxy that refuses everything behaves the same with and without internet access.
    async with proxy_to(0, refuses="403 Forbidden") as proxy:
        use(settings, proxy)
        settings.MCP = {**settings.MCP, **changed}
        (found,) = await asyncio.to_thread(lambda: list(reach(INSTALLATION)))
    assert found.level == level
    assert words in found.text
    assert remedy in found.remedy
    if level != Level.OK:
        assert "claude.ai, chatgpt.com, vscode.dev" in found.text
        assert "EGRESS_PROXY" in found.remedy


def test_documents_are_not_checked_without_oauth(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH": False}
    assert list(reach(INSTALLATION)) == []
