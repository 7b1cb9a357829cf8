"""The official Python SDK of the first line logs in: login1.py <url> <name> <password>; without scopes."""

from __future__ import annotations

import asyncio
import html
import json
import re
import sys
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.auth import OAuthClientMetadata

CALLBACK = "http://127.0.0.1:33418/callback"
HIDDEN = re.compile(r'<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"')


class Memory:
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


async def main(url: str, name: str, password: str) -> None:
    memory, way_back, asked = Memory(), {}, []

    async def send(browser, page, **form):
        first = page.text.split("</form>")[0]
        hidden = {key: html.unescape(value) for key, value in HIDDEN.findall(first)}
        action = re.search(r'<form[^>]*action="([^"]*)"', first)
        target = urljoin(str(page.url), action[1]) if action else str(page.url)
        return await browser.post(target, data={**hidden, **form})

    async def open_browser(address: str) -> None:
        asked.append(dict(parse_qsl(urlsplit(address).query)))
        async with httpx.AsyncClient(timeout=60) as browser:
            page = await browser.get(address, follow_redirects=True)
            page = await send(browser, page, username=name, password=password)
            page = await browser.get(urljoin(str(page.url), page.headers["location"]))
            answer = await send(browser, page, decision="allow")
            way_back.update(parse_qsl(urlsplit(answer.headers["location"]).query))

    async def back():
        return way_back["code"], way_back.get("state")

    said = OAuthClientMetadata(
        redirect_uris=[CALLBACK],
        client_name="Python client",
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    auth = OAuthClientProvider(url, said, memory, open_browser, back)
    async with (
        streamablehttp_client(url, auth=auth) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        result = await session.call_tool("add", {"a": 2, "b": 3})
    print(
        json.dumps(
            {
                "asked": asked[0].get("scope", ""),
                "granted": memory.tokens.scope,
                "opened": len(asked),
                "result": result.structuredContent,
            }
        )
    )


asyncio.run(main(*sys.argv[1:]))
