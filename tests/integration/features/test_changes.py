"""Changes made in another process reach streams: list changes once, resource updates once per subscriber."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.bounds import SLACK
from tests.clients.raw_http import EventStream
from tests.integration.features.another_process import AnotherProcess
from tests.integration.features.conftest import Connect, settle
from tests.integration.features.conversation import VERSIONS, Client
from tests.servers.live import LiveServer, eventually

UPDATED = "notifications/resources/updated"
TEXT = "doc://text"
UPDATE = """
    from mcp_app.sessions.resource_updates import notify_resource_updated
    for uri in uris:
        notify_resource_updated(uri)
"""


@dataclass
class Kind:
    """One kind of entry: the code that adds it in another process, and its list request."""

    add: str
    listing: str
    key: str


KINDS = {
    "tools": Kind(
        "services.save_tool_preset(actor=None, name=name, preset_of=Tool.objects.get(name='echo'), "
        "fixed_arguments={'text': name})",
        "tools/list",
        "{name}",
    ),
    "prompts": Kind("services.save_prompt(actor=None, name=name, template='Hi')", "prompts/list", "{name}"),
    "resources": Kind(
        "services.save_resource(actor=None, uri='memo://' + name, name=name, text='Hi')",
        "resources/list",
        "memo://{name}",
    ),
}
DELETE = "services.delete_entry(entry={kind}.objects.get(name=name), actor=None)"
MODELS = {"tools": "Tool", "prompts": "Prompt", "resources": "Resource"}
Add = Callable[[str], str]


@pytest.fixture
def add(operator: AnotherProcess, connect: Connect) -> Any:
    """Return a function that adds an entry in the other process; delete it after the test and wait for the
    change.
    """
    made: list[tuple[str, str]] = []

    def add_entry(kind: str) -> str:
        name = f"added-{secrets.token_hex(4)}"
        operator.run(KINDS[kind].add, name=name)
        made.append((kind, name))
        return name

    yield add_entry
    for kind, name in made:
        operator.run(DELETE.format(kind=MODELS[kind]), name=name)
    settle(operator, connect)


def names(client: Client, kind: str) -> list[str]:
    return [entry["name"] for entry in client.listed(KINDS[kind].listing)]


def next_method(client: Client, stream: EventStream, seconds: float) -> str:
    message = client.judge(stream.message(seconds))
    found: str = message["method"]
    return found


@pytest.mark.requirement("TOOL-20", "TOOL-23", "PROMPT-06", "RES-12")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("process", [0, 1])
def test_list_change_notifies_once_within_a_second(
    version: str, kind: str, process: int, connect: Connect, add: Add
) -> None:
    client = connect(version, process=process)
    with client.listen() as stream:
        assert names(client, kind)
        name = add(kind)
        begun = time.monotonic()
        assert next_method(client, stream, 5 + SLACK) == f"notifications/{kind}/list_changed"
        assert time.monotonic() - begun < 1 + SLACK
        assert name in names(client, kind)
        assert stream.quiet(0.2)


@pytest.mark.requirement("TOOL-20", "TOOL-23")
def test_list_change_notifies_every_session_in_every_process(connect: Connect, add: Add) -> None:
    clients = [connect(process=number % 2) for number in range(6)]
    streams = [client.listen() for client in clients]
    name = add("tools")
    for client, stream in zip(clients, streams, strict=True):
        assert next_method(client, stream, 2) == "notifications/tools/list_changed"
        assert name in names(client, "tools")
    for stream in streams:
        assert stream.quiet(0.05)
        stream.close()


@pytest.mark.requirement("TOOL-20")
@pytest.mark.parametrize("version", VERSIONS)
def test_missed_list_change_is_sent_when_the_stream_opens(version: str, connect: Connect, add: Add) -> None:
    client, neighbour = connect(version), connect(version)
    add("prompts")
    newest = add("prompts")
    eventually(lambda: newest in names(neighbour, "prompts"), what="the newest prompt in this process")
    with client.listen() as stream:
        assert next_method(client, stream, 2) == "notifications/prompts/list_changed"
        assert stream.quiet(0.2)
        stream.cut()


@pytest.mark.requirement("TOOL-20")
def test_list_change_waits_for_initialized(connect: Connect, add: Add) -> None:
    client = connect(confirm=False)
    with client.listen() as stream:
        add("tools")
        assert stream.quiet(0.4)
        client.notify("notifications/initialized")
        assert next_method(client, stream, 2) == "notifications/tools/list_changed"


@pytest.mark.requirement("TOOL-23")
def test_added_tool_is_callable_and_disabled_tool_is_unknown(
    connect: Connect, add: Add, operator: AnotherProcess
) -> None:
    client = connect(process=1)
    with client.listen() as stream:
        name = add("tools")
        assert next_method(client, stream, 2) == "notifications/tools/list_changed"
        assert client.use(name).text == name
        disable = "services.set_enabled(entries=[Tool.objects.get(name=name)], enabled=False, actor=None)"
        operator.run(disable, name=name)
        assert next_method(client, stream, 2) == "notifications/tools/list_changed"
        assert client.use(name).error["message"] == f"Unknown tool: {name}"


@pytest.mark.requirement("RES-08", "RES-11")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("process", [0, 1])
def test_resource_update_reaches_a_subscriber_exactly_once(
    version: str, process: int, connect: Connect, operator: AnotherProcess, server: LiveServer
) -> None:
    client = connect(version)
    for _ in range(2):
        assert client.converse("resources/subscribe", {"uri": TEXT}).result == {}
    listening = client.at_port(server.ports[process])
    with listening.listen() as stream:
        operator.run(UPDATE, uris=["doc://binary", TEXT])
        message = client.judge(stream.message(2))
        assert (message["method"], message["params"]) == (UPDATED, {"uri": TEXT})
        assert stream.quiet(0.2)


@pytest.mark.requirement("RES-08", "RES-11", "T-GET-09")
@pytest.mark.parametrize("version", VERSIONS)
def test_missed_resource_update_is_sent_on_the_next_stream_only(
    version: str, connect: Connect, operator: AnotherProcess, server: LiveServer
) -> None:
    client = connect(version)
    client.converse("resources/subscribe", {"uri": TEXT})
    operator.run(UPDATE, uris=[TEXT])
    with client.at_port(server.ports[1]).listen() as stream:
        assert client.judge(stream.message(2))["params"] == {"uri": TEXT}
        assert stream.quiet(0.2)
    with listen_again(client) as stream:
        assert stream.quiet(0.3)


def listen_again(client: Client) -> EventStream:
    """Open the standalone stream once the server has noticed that the previous one was closed."""
    deadline = time.monotonic() + 5
    while not isinstance(found := client.try_get_stream(), EventStream):
        assert found.status == 409
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if client.version == VERSIONS[-1]:
        found.next()
    return found


@pytest.mark.requirement("RES-08")
def test_unsubscribe_ends_updates_and_is_idempotent(client: Client, operator: AnotherProcess) -> None:
    for method in ("subscribe", "unsubscribe", "unsubscribe"):
        assert client.converse(f"resources/{method}", {"uri": TEXT}).result == {}
    assert client.converse("resources/unsubscribe", {"uri": "doc://never-seen"}).result == {}
    with client.listen() as stream:
        operator.run(UPDATE, uris=[TEXT])
        assert stream.quiet(0.3)


@pytest.mark.requirement("RES-09")
def test_subscribe_requires_an_existing_or_matching_uri(client: Client) -> None:
    error = client.converse("resources/subscribe", {"uri": "doc://unknown"}).error
    assert (error["code"], error["data"]) == (-32002, {"uri": "doc://unknown"})
    assert client.converse("resources/subscribe", {"uri": "doc://item/5"}).result == {}


@pytest.mark.requirement("RES-08", "RES-09")
def test_template_uri_can_be_subscribed(connect: Connect, operator: AnotherProcess) -> None:
    client = connect()
    client.converse("resources/subscribe", {"uri": "doc://item/5"})
    with client.listen() as stream:
        operator.run(UPDATE, uris=["doc://item/6", "doc://item/5"])
        assert client.judge(stream.message(2))["params"] == {"uri": "doc://item/5"}


@pytest.mark.requirement("RES-09")
def test_subscriptions_per_session_are_limited(connect_tight: Connect) -> None:
    client = connect_tight()
    said = [client.converse("resources/subscribe", {"uri": f"doc://item/{number}"}) for number in range(4)]
    assert [found.result for found in said[:3]] == [{}] * 3
    assert said[3].error["code"] == -32602
    assert "at most 3" in said[3].error["message"]
    assert client.converse("resources/subscribe", {"uri": "doc://item/0"}).result == {}
    client.converse("resources/unsubscribe", {"uri": "doc://item/0"})
    assert client.converse("resources/subscribe", {"uri": "doc://item/9"}).result == {}


@pytest.mark.requirement("RES-11")
def test_update_notifies_each_subscriber_once_and_no_other_session(
    connect: Connect, operator: AnotherProcess
) -> None:
    clients = [connect(process=number % 2) for number in range(5)]
    for client in clients[:4]:
        client.converse("resources/subscribe", {"uri": TEXT})
    streams = [client.listen() for client in clients]
    operator.run(UPDATE, uris=[TEXT])
    assert [stream.message(2)["params"]["uri"] for stream in streams[:4]] == [TEXT] * 4
    for stream in streams:
        assert stream.quiet(0.1)
        stream.close()
