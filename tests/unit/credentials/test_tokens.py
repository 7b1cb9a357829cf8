"""Access tokens of credentials that several calls and processes share."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mcp_app.credentials import tokens
from tests.servers.web_api import web_api
from tests.unit.egress.sites import Heard, response


@pytest.mark.requirement("INT-05")
async def test_refused_token_is_not_kept_again_by_another_call(settings: Any, clean_redis: str) -> None:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",), "REDIS_URL": clean_redis}
    with web_api() as api:

        def answer(heard: Heard) -> bytes:
            return response(json.dumps({"access_token": f"t{len(api.requests)}"}).encode())

        api.answer = answer
        grant = tokens.Grant("shop-key", f"{api.origin}/token", "shop", "s3cret", ())
        first = await tokens.token(grant)
        dropping = asyncio.create_task(tokens.drop(grant, first))
        await asyncio.sleep(0)
        # Redis has the refused token for a moment longer.
        await tokens.token(grant)
        await dropping
        assert (first, await tokens.token(grant), len(api.requests)) == ("t1", "t2", 2)
    tokens._kept.clear()
