"""Secrets of credentials are found nowhere after calls that succeed, fail, redirect and time out.

INT-05, INT-06. The search includes everything that the installation stores, logs, exports and shows.
"""

from __future__ import annotations

import asyncio
import base64
import html
import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import parse_qs, quote, quote_plus

import pytest
import redis

from tests.clients.modern import Modern
from tests.process.http_tools.conftest import made
from tests.servers.live import LiveServer, eventually
from tests.servers.redis_monitor import monitored
from tests.servers.web_api import WebApi
from tests.unit.egress.sites import Heard, response

pytestmark = pytest.mark.process


def secret(kind: str) -> str:
    return f"Zq-{kind}/S3cr+et&=41%25~"


# By name: kind, secret, and other values of each credential.
CREDENTIALS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "bearer": ("bearer", {"token": secret("bearer")}, {}),
    "basic": ("basic", {"username": "shop", "password": secret("basic")}, {}),
    "header": (
        "api_key",
        {"value": secret("header")},
        {"placement": {"name": "X-Key", "prefix": "Token "}},
    ),
    "query": ("api_key", {"value": secret("query")}, {"placement": {"in": "query", "name": "key"}}),
    "cookie": ("api_key", {"value": secret("cookie")}, {"placement": {"in": "cookie", "name": "sid"}}),
    "headers": ("headers", {"headers": {"X-One": secret("one"), "X-Two": secret("two")}}, {}),
    "machine": (
        "client_credentials",
        {"client_id": "shop", "client_secret": secret("machine")},
        {"scopes": "read"},
    ),
}
TOKENS = [f"Zq-token-{number}/Iss+ued&=41%25~" for number in (1, 2, 3, 4)]
SECRETS = [
    *(secret(name) for name in ("bearer", "basic", "header", "query", "cookie", "one", "two", "machine")),
    *TOKENS,
    base64.b64encode(f"shop:{secret('basic')}".encode()).decode(),
]
CASES = ("echo", "refused", "moved", "broken", "never")


def spellings(text: str) -> Iterator[str]:
    """Yield a text as a server may repeat it."""
    for safe in ("", "/"):
        encoded = quote(text, safe=safe)
        yield from (encoded, re.sub("%..", lambda match: match[0].lower(), encoded))
    yield from (text, quote_plus(text), html.escape(text), text.replace("/", "\\/"))
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(text.encode()).decode()


def forms(text: str) -> Iterator[bytes]:
    """Yield a text in each form in which it could stand somewhere."""
    yield from (each.encode() for each in spellings(text))
    yield quote(quote(text, safe=""), safe="").encode()
    yield text.encode().hex().encode()
    for part in (text, quote_plus(text)):
        for before in range(3):
            # The base64 of a longer text with this one, without the characters that depend on the rest.
            core = base64.b64encode(b"\0" * before + part.encode())[(0, 2, 3)[before] : -4]
            yield from (core, core.replace(b"+", b"-").replace(b"/", b"_"))


FORMS = {form: text for text in SECRETS for form in forms(text)}


def found_in(data: bytes) -> set[str]:
    """Return the secrets that stand in some data in any form."""
    return {text for form, text in FORMS.items() if form in data}


class Upstream:
    """The web API. It repeats secrets, and records which it received."""

    def __init__(self, api: WebApi) -> None:
        self.issued = iter(TOKENS * 100)
        self.received: set[str] = set()
        self.asked: set[str] = set()
        api.answer = self.answer

    async def answer(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        path, _, query = heard.line.split(" ")[1].partition("?")
        repeated = "\n".join([query, *(f"{name}: {value}" for name, value in heard.headers)])
        self.received |= found_in(f"{repeated}\n{heard.body.decode()}".encode())
        if path == "/token":
            assert parse_qs(heard.body.decode())["grant_type"] == ["client_credentials"]
            data = {"access_token": next(self.issued), "expires_in": 3_600}
            writer.write(response(json.dumps(data).encode()))
            return
        case = path.rpartition("/")[2]
        self.asked.add(path)
        spelled = [each for text in found_in(repeated.encode()) for each in spellings(text)]
        everything = "\n".join([repeated, *spelled]).encode()
        if case == "echo":
            writer.write(response(json.dumps({"got": everything.decode()}).encode()))
        elif case == "refused":
            writer.write(response(everything, kind="text/plain", status="401 Unauthorized"))
        elif case == "moved":
            to = "&".join(each for each in spelled if each.isascii() and each.isprintable())
            writer.write(response(everything, f"Location: /next?{to}", status="302 Found"))
        elif case == "broken":
            writer.write(b"HTTP/1.1 twohundred " + everything + b"\r\n\r\n")
            writer.close()
        # Nothing is the answer to "never".


def tools(api: WebApi) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    found: list[dict[str, Any]] = []
    for name in CREDENTIALS:
        for case in CASES:
            request = {
                "origin": api.origin, "method": "GET", "path": f"/{name}/{case}", "credential": name,
                "timeout": 0.2 if case == "never" else 30,
            }  # fmt: skip
            if case == "echo":
                request |= {"cache_seconds": 60, "retries": 1}
            for suffix in ("", "_later") if case in ("echo", "refused") else ("",):
                row = {"name": f"{name}_{case}{suffix}", "request": request, "input_schema": schema}
                found.append({**row, "background": bool(suffix)})
    return found


@contextmanager
def commands(live: LiveServer) -> Iterator[bytearray]:
    """Record all that is sent to Redis inside the block."""
    seen = bytearray()

    def take(command: dict[str, Any]) -> None:
        seen.extend(command["command"].encode("utf-8", "surrogateescape") + b"\n")

    with monitored(live.redis.url, take):
        yield seen


def stored_in_redis(live: LiveServer) -> bytes:
    """Return the names and values of all keys."""
    readers = {
        b"string": lambda client, key: client.get(key),
        b"hash": lambda client, key: client.hgetall(key),
        b"list": lambda client, key: client.lrange(key, 0, -1),
        b"set": lambda client, key: client.smembers(key),
        b"zset": lambda client, key: client.zrange(key, 0, -1),
        b"stream": lambda client, key: client.xrange(key),
    }
    with redis.Redis.from_url(live.redis.url) as client:
        keys = client.keys("*")
        values = [(key, readers[client.type(key)](client, key)) for key in keys]
    return repr(values).encode()


# Every page of the admin, and every answer of the API, for a superuser.
PAGES = """
import json
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.urls import NoReverseMatch, reverse
from io import StringIO
from mcp_app.models import ErrorGroup, Tool
client = Client(headers={"host": "127.0.0.1"})
client.force_login(get_user_model().objects.get(username="root"))
addresses = ["/admin/", "/admin/mcp_app/doctor/", "/notifications/"]
addresses += [f"/admin/mcp_app/{page}" for page in (
    "message/errors/?show=all", "message/?live=1", "session/?live=1")]
addresses += [f"/api/{name}/" for name in ("audit", "tools", "credentials", "messages", "calls")]
addresses.append("/api/catalogue/export/")
addresses += [f"/admin/mcp_app/message/errors/{each.pk}/" for each in ErrorGroup.objects.all()]
addresses += [f"/admin/mcp_app/message/figures/?by={by}{csv}" for by in ("tool", "principal") for csv in
              ("", "&format=csv")]
for each in Tool.objects.filter(source="http", name__endswith="_echo"):
    addresses += [f"/admin/mcp_app/tool/{each.pk}/{page}/" for page in ("change", "try", "http", "history")]
for model, shown in admin.site._registry.items():
    if model._meta.app_label != "mcp_app":
        continue
    base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    try:
        addresses.append(reverse(f"{base}_changelist"))
        if model is not Tool:
            addresses += [reverse(f"{base}_change", args=[pk]) for pk in
                          model._default_manager.values_list("pk", flat=True).order_by("-pk")[:20]]
    except NoReverseMatch:
        continue
pages = {}
for address in addresses:
    answer = client.get(address, follow=True)
    data = b"".join(answer.streaming_content) if answer.streaming else answer.content
    pages[address] = f"{answer.status_code} {answer.headers} {data.decode()}"
dumped = StringIO()
call_command("dumpdata", stdout=dumped)
pages["dumpdata"] = dumped.getvalue()
for format in ("json", "yaml"):
    exported = StringIO()
    call_command("mcp_export", format=format, stdout=exported)
    pages[f"mcp_export {format}"] = exported.getvalue()
print(json.dumps(pages))
"""
TRIED = """
import json
from django.contrib.auth import get_user_model
from django.test import Client
from mcp_app.models import Tool
client = Client(headers={{"host": "127.0.0.1"}})
client.force_login(get_user_model().objects.get(username="root"))
shown = {{}}
for credential, case in json.loads({pairs!r}):
    values = {{"method": "GET", "address": f"{origin}/{{credential}}/{{case}}", "body_mode": "none",
              "mode": "auto", "timeout": "30", "retries": "0", "cache_seconds": "0", "name": "tried",
              "arguments": "{{}}", "credential": credential, "_try": "1"}}
    answer = client.post("/admin/mcp_app/tool/http/", values)
    page = answer.content.decode()
    shown[f"{{credential}} {{case}}"] = [page.count("data-sent"), page]
print(json.dumps(shown))
"""


@pytest.mark.requirement("INT-05", "INT-06")
def test_secrets_are_found_nowhere_after_calls_of_every_kind(
    live: LiveServer, token: str, api: WebApi
) -> None:
    upstream = Upstream(api)
    bound = {"origins": [api.origin]}
    machine = {**bound, "token_url": f"{api.origin}/token"}
    rows = [
        {"name": name, "kind": kind, "secret": own, **more, **(machine if name == "machine" else bound)}
        for name, (kind, own, more) in CREDENTIALS.items()
    ]
    places: dict[str, bytes] = {}
    with commands(live) as sent_to_redis:
        made(live, token, rows, tools(api))
        with closing(Modern.at(live.ports[0], token=token)) as client:
            for row in tools(api):
                answer = client.post("tools/call", {"name": row["name"], "arguments": {}})
                places[f"result of {row['name']}"] = answer.body
        pairs = [(name, case) for name in CREDENTIALS for case in ("echo", "refused", "moved")]
        tried = json.loads(live.shell(TRIED.format(pairs=json.dumps(pairs), origin=api.origin)))
        places |= {f"try of {name}": page.encode() for name, (_, page) in tried.items()}
        count = "from mcp_app.models import Message; print(Message.objects.count())"
        eventually(lambda: int(live.shell(count)) >= len(tools(api)), what="the message log")
        pages = json.loads(live.shell(PAGES))
    places |= {name: text.encode() for name, text in pages.items()}
    places["commands to Redis"] = bytes(sent_to_redis)
    places["Redis"] = stored_in_redis(live)
    places["logs and traces"] = live.logs().encode()
    for path in (live.folder / "data").rglob("*"):
        if path.is_file():
            places[path.name] = path.read_bytes()
    leaks = [
        (place, form, data[(at := data.index(form)) - 60 : at])
        for place, data in places.items()
        for form in FORMS
        if form in data
    ]
    assert leaks == []

    # The search would have found them: they were sent, all cases were answered, and the pages were shown.
    assert set(SECRETS) - set(TOKENS) <= upstream.received
    assert upstream.received & set(TOKENS)
    assert upstream.asked == {f"/{name}/{case}" for name in CREDENTIALS for case in CASES}
    assert {name: attempts for name, (attempts, _) in tried.items() if not attempts} == {}
    assert {name: page[:3] for name, page in pages.items() if page[:3] in ("403", "404", "500")} == {}
    assert b'"bearer_echo_later"' in places["commands to Redis"] or b"bearer_echo_later" in places["Redis"]
    assert b"tools/call bearer_echo" in places["logs and traces"]
    assert b"[hidden]" in places["result of bearer_echo"]
    assert b"[hidden]" in places["result of machine_refused_later"]
    assert b"302" in places["result of query_moved"]
    assert b"within 0.2 seconds" in places["result of cookie_never"]
