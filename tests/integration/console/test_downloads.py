"""Downloads of messages as JSON lines and as an archive."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.test import AsyncClient
from django.urls import reverse

from mcp_app.models import Message
from tests.samples.admin_seed import Seed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


async def _downloaded(user: Any, **query: str) -> bytes:
    client = AsyncClient()
    await client.aforce_login(user, "django.contrib.auth.backends.ModelBackend")
    answer: Any = await client.get(reverse("mcp_console:download"), query)
    assert answer.status_code == 200, answer.content
    assert answer["Content-Disposition"] == f'attachment; filename="mcp-messages.{query["form"]}"'
    return b"".join([part async for part in answer.streaming_content])


async def test_messages_are_downloaded_as_json_lines_and_har(seeded_anew: Seed) -> None:
    found = seeded_anew
    session = found.session.pk
    lines = (await _downloaded(found.root, form="jsonl", session=session)).splitlines()
    assert len(lines) == 63
    newest = orjson.loads(lines[0])
    assert (newest["request_id"], newest["method"], newest["status"]) == ("63", "tools/call", "ok")
    archive = orjson.loads(await _downloaded(found.root, form="har", session=session, search="status:error"))
    entries = archive["log"]["entries"]
    assert [entry["_mcp"]["request_id"] for entry in entries] == ["61", "60"]
    assert entries[0]["request"]["postData"]["text"].startswith("{")
    assert {"startedDateTime", "time", "request", "response", "cache", "timings"} <= entries[0].keys()
    empty = orjson.loads(await _downloaded(found.root, form="har", search="absolutely-nothing"))
    assert empty["log"]["entries"] == []


@pytest.mark.parametrize("form", ["jsonl", "har"])
async def test_deeply_nested_answer_does_not_break_the_download(seeded_anew: Seed, form: str) -> None:
    """JSON is read to more levels than it is written."""
    found = seeded_anew
    deep = "[" * 300 + "]" * 300
    await Message.objects.filter(session_id=found.session.pk).aupdate(answer=deep)
    lines = await _downloaded(found.root, form=form, session=found.session.pk)
    assert lines.count(f'"{deep}"'.encode()) == 63
