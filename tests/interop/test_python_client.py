"""The official Python client with a user who declines, or without elicitation."""

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
async def test_declined_elicitation_is_an_error_result(live: LiveServer) -> None:
    async with Client(live.url, mode="legacy", elicitation_callback=_decline) as client:
        result = await client.call_tool("ask_name", {})
    assert result.is_error


@pytest.mark.requirement("CAP-02")
async def test_client_without_elicitation_gets_an_error_result(live: LiveServer) -> None:
    async with Client(live.url, mode="legacy") as client:
        result = await client.call_tool("ask_name", {})
    assert result.is_error
    assert isinstance(result.content[0], types.TextContent)
    assert "elicitation" in result.content[0].text
