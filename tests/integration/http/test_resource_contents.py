"""Resource contents changed by another process in any way: subscribers are notified."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.clients.raw_http import EventStream, Mcp
from tests.clients.raw_modern import Modern
from tests.integration.http.conftest import OpenSession
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer, eventually

UPDATED = "notifications/resources/updated"
LISTED = "notifications/resources/list_changed"
LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
BEFORE = """
import base64, json
from django.contrib.auth import get_user_model
from django.core.files.base import ContentFile
from django.test import Client
from mcp_app.catalogue import transfer
from mcp_app.catalogue.changes import drafts, rolling_back, services
from mcp_app.models import CatalogueChange, Resource
row = Resource.objects.get(uri=uri)
rights = {"is_superuser": True, "is_staff": True}
root, _ = get_user_model().objects.get_or_create(username="root", defaults=rights)
web = Client()
web.force_login(root)
"""
MAKE = """
from django.core.files.base import ContentFile
from mcp_app.catalogue.changes import services
from mcp_app.models import Resource

def content(text):
    return {"file": ContentFile(text.encode(), "old.txt")} if uploaded else {"text": text}

first = dict(uri=uri, name=uri, mime_type="text/plain", description="Made here")
made = services.save_resource(actor=None, **first, **content("first"))
services.save_resource(actor=None, entry=made, **content("old"))
result = None
"""


@dataclass(frozen=True, slots=True)
class Way:
    """A change of the content to ``new``. ``uploaded``: the content was a file before."""

    code: str
    new: str = "new"
    uploaded: bool = False
    told: tuple[str, ...] = (UPDATED,)


WAYS = {
    "the service": Way("services.save_resource(actor=None, entry=row, text='new')"),
    "the admin form": Way(
        "form = {'name': row.name, 'mime_type': 'text/plain', 'text': 'new', 'annotations': '{}'}\n"
        "form |= {'title': '', 'description': row.description, 'enabled': 'on', 'permission': ''}\n"
        "form |= {'position': row.position, 'icons': '[]', 'meta': '{}', '_save': '1'}\n"
        "answer = web.post(f'/admin/mcp_app/resource/{row.pk}/change/', form, HTTP_HOST='localhost')\n"
        "assert answer.status_code == 302, answer.content"
    ),
    "the API": Way(
        "body = json.dumps({'text': 'new'})\n"
        "address = f'/api/resources/{row.pk}/'\n"
        "answer = web.patch(address, body, content_type='application/json', HTTP_HOST='localhost')\n"
        "assert answer.status_code == 200, answer.content"
    ),
    "a published draft": Way(
        "draft = drafts.save_draft(kind=Resource, entry=row, actor=None, text='new')\n"
        "drafts.publish_draft(draft=draft, actor=None)"
    ),
    "a roll back": Way(
        "first = CatalogueChange.objects.filter(key=uri).earliest('id')\n"
        "rolling_back.roll_back(to=first, actor=None, why='as it was')",
        new="first",
    ),
    "an import": Way(
        "described = json.loads(transfer.export_catalogue('json'))\n"
        "next(each for each in described['resources'] if each['uri'] == uri)['text'] = 'new'\n"
        "transfer.import_catalogue(json.dumps(described).encode(), actor=None)"
    ),
    "an upload": Way(
        "services.save_resource(actor=None, entry=row, text='', file=ContentFile(b'new', 'new.txt'))"
    ),
    "an upload replacing another": Way(
        "services.save_resource(actor=None, entry=row, file=ContentFile(b'new', 'old.txt'))", uploaded=True
    ),
    "a text replacing an upload": Way(
        "services.save_resource(actor=None, entry=row, text='new', file=False)", uploaded=True
    ),
    "text and title": Way(
        "services.save_resource(actor=None, entry=row, text='new', title='New')", told=(LISTED, UPDATED)
    ),
    "another media type": Way(
        "services.save_resource(actor=None, entry=row, mime_type='text/markdown')",
        new="old",
        told=(LISTED, UPDATED),
    ),
    "only the title": Way(
        "services.save_resource(actor=None, entry=row, title='New')", new="old", told=(LISTED,)
    ),
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as held:
        yield held


@pytest.fixture
def uri(admin: OtherProcess) -> Iterator[str]:
    name = f"note://{secrets.token_hex(4)}"
    yield name
    admin.run(
        "from mcp_app.catalogue.changes.services import delete_entries\n"
        "from mcp_app.models import Resource\n"
        "delete_entries(entries=Resource.objects.filter(uri=uri), actor=None)",
        uri=name,
    )


def _make(admin: OtherProcess, live: LiveServer, uri: str, way: Way) -> None:
    """Create the resource, and wait until both processes offer it, so that no session is notified of its
    creation.
    """
    admin.run(MAKE, uri=uri, uploaded=way.uploaded)
    for port in live.ports:
        client = Modern(port)
        eventually(lambda at=client: _known(at, uri), 10, "the resource is offered")  # type: ignore[misc]


def _known(client: Modern, uri: str) -> bool:
    found = client.request("resources/read", {"uri": uri})
    return "contents" in found and found["contents"][0]["text"] == "old"


def _read(client: Mcp, uri: str) -> Any:
    return client.call("resources/read", {"uri": uri})["result"]


def _told(stream: EventStream, count: int) -> list[tuple[str, Any]]:
    found = [stream.message(5) for _ in range(count)]
    assert stream.quiet(0.2)
    return sorted((each["method"], each["params"].get("uri") if "params" in each else None) for each in found)


@pytest.mark.requirement("RES-08", "RES-11", "SUB-06")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_content_change_notifies_every_subscriber(
    way: Way, live: LiveServer, admin: OtherProcess, open_session: OpenSession, stack: ExitStack, uri: str
) -> None:
    _make(admin, live, uri, way)
    expected = sorted((method, uri if method == UPDATED else None) for method in way.told)
    streams: list[tuple[Callable[[], Any], EventStream]] = []
    for version, process in zip(LEGACY, (0, 1, 0), strict=True):
        client = open_session(version, process)
        assert client.call("resources/subscribe", {"uri": uri})["result"] == {}
        streams.append((partial(_read, client, uri), stack.enter_context(client.get_stream())))
    asked = {"resourceSubscriptions": [uri], "resourcesListChanged": True}
    for process in (0, 1):
        modern = stack.enter_context(Modern(live.ports[process]).listen(asked))
        assert modern.message(5)["method"] == "notifications/subscriptions/acknowledged"
        streams.append((partial(Modern(live.ports[process]).request, "resources/read", {"uri": uri}), modern))
    admin.run(BEFORE + way.code + "\nresult = None", uri=uri)
    for read, stream in streams:
        assert _told(stream, len(expected)) == expected
        # A client that reads right after the notification gets the new content from the same process.
        assert read()["contents"][0]["text"] == way.new


@pytest.mark.requirement("RES-08")
def test_missed_update_is_sent_only_to_the_reconnecting_subscriber(
    live: LiveServer, admin: OtherProcess, open_session: OpenSession, stack: ExitStack, uri: str
) -> None:
    way = WAYS["the service"]
    _make(admin, live, uri, way)
    away, stranger = open_session(process=0), open_session(process=0)
    for client in (away, stranger):
        with client.get_stream() as stream:
            stream.quiet(0.2)
    away.call("resources/subscribe", {"uri": uri})
    admin.run(BEFORE + way.code + "\nresult = None", uri=uri)
    elsewhere = stack.enter_context(closing(away.via(live.ports[1])))
    eventually(
        lambda: _read(elsewhere, uri)["contents"][0]["text"] == "new",
        5,
        "the new text at the other process",
    )
    with elsewhere.get_stream() as stream:
        assert _told(stream, 1) == [(UPDATED, uri)]
    with stranger.get_stream() as stream:
        stream.next()  # The priming event with an id to resume from.
        assert stream.quiet(0.3)


@pytest.mark.requirement("RES-12")
@pytest.mark.parametrize("how", ["set_enabled(entries=[row], enabled=False", "delete_entry(entry=row"])
def test_disabling_or_deleting_a_resource_notifies_the_list_only(
    how: str, live: LiveServer, admin: OtherProcess, open_session: OpenSession, uri: str
) -> None:
    _make(admin, live, uri, WAYS["the service"])
    client = open_session()
    client.call("resources/subscribe", {"uri": uri})
    with client.get_stream() as stream:
        admin.run(BEFORE + f"services.{how}, actor=None)\nresult = None", uri=uri)
        assert _told(stream, 1) == [(LISTED, None)]
