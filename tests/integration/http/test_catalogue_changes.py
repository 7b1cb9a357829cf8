"""A catalogue change made in one process reaches every client of every process."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.bounds import SLACK
from tests.clients.raw_http import EventStream, Mcp
from tests.integration.http.conftest import OpenSession
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer, eventually

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
CHANGED = "notifications/tools/list_changed"
FORGET = (
    "from mcp_app.catalogue.changes.services import delete_entries\n"
    "from mcp_app.models import Prompt, Tool\n"
    "delete_entries(entries=Tool.objects.filter(name__startswith='spare-'), actor=None)\n"
    "delete_entries(entries=Prompt.objects.filter(name__startswith='moved-'), actor=None)"
)


def names(client: Mcp) -> set[str]:
    return {tool["name"] for tool in client.call("tools/list")["result"]["tools"]}


def is_as_at_first(client: Mcp) -> bool:
    """Return True if a process offers the spare tool, and no entry that a test imported."""
    prompts = {prompt["name"] for prompt in client.call("prompts/list")["result"]["prompts"]}
    imported = {name for name in names(client) | prompts if name.startswith(("spare-", "moved-"))}
    return "spare" in names(client) and not imported


def told(stream: EventStream, seconds: float = 3.0) -> str:
    """Return the method of the next message."""
    return str(stream.message(seconds)["method"])


def all_told(stream: EventStream) -> list[str]:
    """Return the methods of all messages until the stream is silent."""
    found: list[str] = []
    with suppress(TimeoutError):
        while True:
            found.append(told(stream, 0.5))
    return found


@pytest.fixture(autouse=True)
def spare_is_on(admin: OtherProcess, open_session: OpenSession) -> None:
    """Enable the tool ``spare`` in both processes, so that no test receives another test's notifications."""
    admin.switch("spare", on=True)
    for process in (0, 1):
        client = open_session(process=process)
        eventually(lambda at=client: is_as_at_first(at), 2, "the catalogue is as at first")  # type: ignore[misc]


@pytest.mark.requirement("T-GET-03", "SES-11")
@pytest.mark.parametrize("version", LEGACY)
def test_disabled_tool_notifies_streams_of_other_processes_within_a_second(
    live: LiveServer, open_session: OpenSession, admin: OtherProcess, version: str
) -> None:
    with ExitStack() as stack:
        clients = [open_session(version, process=number) for number in (0, 1)]
        streams = [stack.enter_context(client.get_stream()) for client in clients]
        for on in (False, True):
            changed = admin.switch("spare", on=on)
            for client, stream in zip(clients, streams, strict=True):
                assert told(stream) == CHANGED
                assert time.time() - changed < 1 + SLACK
                assert ("spare" in names(client)) == on


@pytest.mark.requirement("T-GET-03")
def test_disabled_tool_cannot_be_called(open_session: OpenSession, admin: OtherProcess) -> None:
    clients = [open_session(process=number) for number in (0, 1)]
    with clients[0].get_stream() as first, clients[1].get_stream() as second:
        admin.switch("spare", on=False)
        assert {told(first), told(second)} == {CHANGED}
    for client in clients:
        assert client.call("tools/call", {"name": "spare"})["error"]["code"] == -32602


@pytest.mark.requirement("T-GET-09", "T-GET-03")
def test_management_command_notifies_the_web_processes(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session(process=1)
    with client.get_stream() as stream:
        printed = live.shell(
            "import time\n"
            "from mcp_app.catalogue.changes.services import set_enabled\n"
            "from mcp_app.models import Tool\n"
            "set_enabled(entries=Tool.objects.filter(name='spare'), enabled=False, actor=None)\n"
            "print(time.time())"
        )
        assert told(stream) == CHANGED
        assert time.time() - float(printed.split()[-1]) < 5 + SLACK  # Includes the exit of the command.
    assert "spare" not in names(client)


@pytest.mark.requirement("T-GET-03")
def test_catalogue_import_notifies_once_per_changed_list(
    live: LiveServer, open_session: OpenSession, tmp_path: Path
) -> None:
    presets = [{"name": f"spare-{number}", "source": "admin", "preset_of": "spare"} for number in range(5)]
    prompts = [{"name": f"moved-{number}", "source": "admin", "template": "Hi"} for number in range(5)]
    file = tmp_path / "catalogue.json"
    file.write_text(
        json.dumps({"format": "django-mcp-catalogue", "version": 1, "tools": presets, "prompts": prompts})
    )
    client = open_session(process=1)
    with client.get_stream() as stream:
        live.manage("mcp_import", str(file))
        try:
            assert sorted([told(stream), *all_told(stream)]) == [
                "notifications/prompts/list_changed",
                CHANGED,
            ]
            assert {preset["name"] for preset in presets} <= names(client)
        finally:
            live.shell(FORGET)


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ("for number in range(41): change(number)", 41),
        # All changes are visible at the first notification, so each process finds one new state.
        ("with transaction.atomic():\n    for number in range(41): change(number)", 1),
    ],
    ids=["each committed", "committed together"],
)
def test_burst_of_changes_sends_few_notifications(
    open_session: OpenSession, admin: OtherProcess, changes: str, most: int
) -> None:
    clients = [open_session(process=number % 2) for number in range(6)]
    with ExitStack() as stack:
        streams = [stack.enter_context(client.get_stream()) for client in clients]
        for stream in streams:
            stream.next()
        for away in streams[4:]:
            away.cut()
        admin.run(
            "from django.db import transaction\n"
            "spare = Tool.objects.filter(name='spare')\n"
            "change = lambda number: set_enabled(entries=spare, enabled=number % 2 == 1, actor=None)\n"
            + changes
        )
        for number in (4, 5):
            again = clients[number].get_stream(streams[number].last_event_id)
            assert told(stack.enter_context(again)) == CHANGED
        for stream in streams[:4]:
            notices = all_told(stream)
            assert 1 <= len(notices) <= most
            assert set(notices) == {CHANGED}
    assert all("spare" not in names(client) for client in clients)


def test_session_is_not_notified_of_earlier_changes(open_session: OpenSession, admin: OtherProcess) -> None:
    settled = open_session()
    with settled.get_stream() as stream:
        admin.switch("spare", on=False)
        assert told(stream) == CHANGED
    with open_session().get_stream() as stream:
        assert all_told(stream) == []


def test_each_kind_of_list_has_its_own_notification(open_session: OpenSession, admin: OtherProcess) -> None:
    client = open_session(process=1)
    code = (
        "from mcp_app.models import Prompt, Resource\n"
        "rows = {'prompts': Prompt.objects.filter(name='test_simple_prompt'),"
        " 'resources': Resource.objects.filter(uri='test://static-text')}\n"
        "for enabled in (False, True): set_enabled(entries=rows[kind], enabled=enabled, actor=None)"
    )
    with client.get_stream() as stream:
        for kind in ("prompts", "resources"):
            admin.run(code, kind=kind)
            assert {told(stream), *all_told(stream)} == {f"notifications/{kind}/list_changed"}
