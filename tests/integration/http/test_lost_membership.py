"""Streams of a user who loses a toolset by a change in another process (TSET-03)."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from uuid import uuid4

import pytest

from tests.clients.raw_http import EventStream
from tests.clients.raw_modern import Modern
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer, eventually

pytestmark = pytest.mark.requirement("TSET-03")
# The promise is 10 seconds, in which every credential is read again. Broadcasts are faster.
LOST_SECONDS = 5.0
MAKE = """
from django.contrib.auth.models import Group
from mcp_app.catalogue.toolsets.groups import memberships_of
from mcp_app.catalogue.toolsets.services import save_toolset
user = get_user_model().objects.create_user(name)
group = Group.objects.create(name=name)
user.groups.add(group)
save_toolset(
    actor=None, slug=name, audience="groups", permissions=memberships_of([name]), rules=[{"kind": "tool"}]
)
row, result = issue_api_key(user=user, name="test")
"""
WAYS = {
    "removed from the group": "get_user_model().objects.get(username=name).groups.clear()",
    "group deleted": "from django.contrib.auth.models import Group; Group.objects.get(name=name).delete()",
    "user deactivated": "u = get_user_model().objects.get(username=name); u.is_active = False; u.save()",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_streams_of_a_lost_toolset_end_in_both_processes(
    live: LiveServer, admin: OtherProcess, way: str
) -> None:
    name = f"team-{uuid4().hex[:8]}"
    key = admin.run(MAKE, name=name)
    path = f"/mcp/{name}"
    with ExitStack() as stack:
        streams: list[EventStream] = []
        for process, port in enumerate(live.ports):
            modern = Modern(port, key, path=path)
            eventually(lambda at=modern: at.post("tools/list", {}).status == 200, 5, "the toolset")  # type: ignore[misc]
            streams.append(stack.enter_context(modern.listen({"toolsListChanged": True})))
            assert streams[-1].message()["method"] == "notifications/subscriptions/acknowledged"
            legacy = stack.enter_context(closing(live.mcp(process, key)))
            legacy.path = path
            legacy.initialize()
            streams.append(stack.enter_context(legacy.get_stream()))
        changed = time.monotonic()
        admin.run(way, name=name)
        for stream in streams:
            stream.messages(max(0.1, changed + LOST_SECONDS - time.monotonic()))
            assert stream.ended
        for port in live.ports:
            assert Modern(port, key, path=path).post("tools/list", {}).status in (401, 403)
