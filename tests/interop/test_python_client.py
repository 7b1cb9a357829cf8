"""The official Python client of somebody who does not answer, or who cannot be asked."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]


async def _decline(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


@pytest.mark.requirement("ELI-01")
async def test_a_declined_question_is_an_error_result(live: LiveServer) -> None:
    async with Client(live.url, mode="legacy", elicitation_callback=_decline) as client:
        result = await client.call_tool("ask_name", {})
    assert result.is_error


@pytest.mark.requirement("CAP-02")
async def test_a_client_that_cannot_be_asked_gets_a_clean_error_result(live: LiveServer) -> None:
    async with Client(live.url, mode="legacy") as client:
        result = await client.call_tool("ask_name", {})
    assert result.is_error
    assert isinstance(result.content[0], types.TextContent)
    assert "elicitation" in result.content[0].text
