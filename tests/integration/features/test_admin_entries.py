"""Entries that administrators create and change through the catalogue services, as clients see them."""

from __future__ import annotations

import json
import os
import secrets
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.features.another_process import AnotherProcess
from tests.integration.features.catalogue_app.values import ICON, PERMISSION
from tests.integration.features.conftest import Connect, settle
from tests.integration.features.conversation import VERSIONS, Client
from tests.servers.live import LiveServer, eventually

FORGET = """
    for kind in (Tool, Prompt, Resource):
        services.delete_entries(entries=kind.objects.filter(source="admin"), actor=None)
    untouched = {"enabled": True, "permission": "", "title": "", "description": ""}
    for kind in (Tool, Prompt, Resource, ResourceTemplate):
        for entry in kind.objects.exclude(**untouched):
            services.update_entry(entry=entry, actor=None, **untouched)
"""
SAVE = "result = services.save_{kind}(actor=None, **values).pk"
UPLOAD = """
    from django.core.files.base import ContentFile
    import base64
    file = ContentFile(base64.b64decode(data), name="notes.bin")
    services.save_resource(actor=None, uri=uri, name="notes", file=file, mime_type=mime_type)
"""
CHANGE = "services.update_entry(entry={kind}.objects.get(name=name), actor=None, **values)"
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


@pytest.fixture
def office(operator: AnotherProcess, connect: Connect) -> Iterator[AnotherProcess]:
    """Return the process that edits; its entries are deleted everywhere after the test."""
    yield operator
    operator.run(FORGET)
    settle(operator, connect)


def known(client: Client, method: str, name: str) -> dict[str, Any]:
    """Return the entry of that name, as soon as the process serves it."""
    eventually(lambda: name in [entry["name"] for entry in client.listed(method)], 2)
    return client.entry(method, name)


@pytest.mark.requirement("PROMPT-01", "PROMPT-02", "PROMPT-05", "TITLE-01", "ICON-01")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("process", [0, 1])
def test_prompt_created_by_an_administrator_is_served(
    version: str, process: int, connect: Connect, office: AnotherProcess
) -> None:
    values = {
        "name": "review",
        "title": "Review",
        "description": "Reviews code.",
        "template": "Review {{code}} as {{ who }}. {{code}}!",
        "arguments": [{"name": "code", "title": "Code", "required": True}, {"name": "who"}],
        "icons": [{"src": ICON}],
    }
    office.run(SAVE.format(kind="prompt"), values=values)
    client = connect(version, process=process)
    entry = known(client, "prompts/list", "review")
    assert [argument["name"] for argument in entry["arguments"]] == ["code", "who"]
    assert ("title" in entry, "title" in entry["arguments"][0]) == (version >= "2025-06-18",) * 2
    given = {"name": "review", "arguments": {"code": "{{who}} \\1", "who": "Ada"}}
    (message,) = client.converse("prompts/get", given).result["messages"]
    assert message == {
        "role": "user",
        "content": {"type": "text", "text": "Review {{who}} \\1 as Ada. {{who}} \\1!"},
    }
    missing = client.converse("prompts/get", {"name": "review", "arguments": {"who": "Ada"}})
    assert missing.error["code"] == -32602


@pytest.mark.requirement("RES-01", "RES-02", "ANN-01")
@pytest.mark.parametrize("version", VERSIONS)
def test_text_resource_created_by_an_administrator_is_served(
    version: str, connect: Connect, office: AnotherProcess
) -> None:
    marks = {"audience": ["user"], "priority": 0.5, "lastModified": "2025-11-25T12:00:00Z"}
    values = {
        "uri": "memo://rules",
        "name": "rules",
        "text": "Be kind. ❤",
        "mime_type": "text/markdown",
        "annotations": marks,
    }
    office.run(SAVE.format(kind="resource"), values=values)
    client = connect(version)
    entry = known(client, "resources/list", "rules")
    assert entry["mimeType"] == "text/markdown"
    assert ("lastModified" in entry["annotations"]) == (version >= "2025-06-18")
    assert client.converse("resources/read", {"uri": "memo://rules"}).result == {
        "contents": [{"uri": "memo://rules", "mimeType": "text/markdown", "text": "Be kind. ❤"}]
    }


@pytest.mark.requirement("RES-02", "RES-14")
@pytest.mark.parametrize(("mime_type", "member"), [("text/plain", "text"), ("application/pdf", "blob")])
def test_uploaded_resource_is_served_by_every_process(
    mime_type: str, member: str, connect: Connect, office: AnotherProcess
) -> None:
    office.run(UPLOAD, uri="memo://notes", mime_type=mime_type, data="aGVsbG8=")
    for process in (0, 1):
        client = connect(process=process)
        known(client, "resources/list", "notes")
        (content,) = client.converse("resources/read", {"uri": "memo://notes"}).result["contents"]
        assert content["mimeType"] == mime_type
        assert content[member] == {"text": "hello", "blob": "aGVsbG8="}[member]
        assert b64decode(content.get("blob", "aGVsbG8=")) == b"hello"


@pytest.fixture
def documents(server: LiveServer) -> Path:
    folder = Path(server.environment["DATA_DIR"]) / "documents"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.requirement("RES-05")
def test_file_in_a_resource_directory_is_served_without_following_links(
    connect: Connect, office: AnotherProcess, documents: Path
) -> None:
    file = documents / f"{secrets.token_hex(4)}.txt"
    file.write_text("inside")
    uri = file.as_uri()
    office.run(SAVE.format(kind="resource"), values={"uri": uri, "name": "inside"})
    client = connect()
    known(client, "resources/list", "inside")
    (content,) = client.converse("resources/read", {"uri": uri}).result["contents"]
    assert content == {"uri": uri, "mimeType": "text/plain", "text": "inside"}
    file.write_text("changed on disk")
    assert client.converse("resources/read", {"uri": uri}).result["contents"][0]["text"] == "changed on disk"
    file.unlink()
    file.symlink_to("/etc/hosts")
    assert client.converse("resources/read", {"uri": uri}).error["code"] == -32002
    file.unlink()
    os.mkfifo(file)
    assert client.converse("resources/read", {"uri": uri}).error["code"] == -32002


@pytest.mark.requirement("RES-05")
@pytest.mark.parametrize(
    "tail",
    ["../db.sqlite3", "%2e%2e/db.sqlite3", "..%2Fdb.sqlite3", "a/../../db.sqlite3", "link/hosts", "%00", "."],
)
def test_uri_outside_the_resource_directories_is_refused(
    tail: str, office: AnotherProcess, documents: Path
) -> None:
    if not (link := documents / "link").is_symlink():
        link.symlink_to("/etc")
    with pytest.raises(RuntimeError, match="ValidationError"):
        office.run(SAVE.format(kind="resource"), values={"uri": f"{documents.as_uri()}/{tail}", "name": "x"})


@pytest.mark.requirement("TOOL-02", "TOOL-21")
@pytest.mark.parametrize("version", VERSIONS)
def test_preset_hides_and_fixes_its_arguments(version: str, connect: Connect, office: AnotherProcess) -> None:
    code = """
        base = Tool.objects.get(name="measure")
        services.save_tool_preset(actor=None, name="kilometres", preset_of=base, fixed_arguments=fixed,
                                  description="Measures far.")
    """
    office.run(code, fixed={"unit": "km"})
    client = connect(version)
    entry = known(client, "tools/list", "kilometres")
    assert entry["description"] == "Measures far."
    assert entry["inputSchema"]["properties"].keys() == {"size", "tags"}
    assert json.loads(client.use("kilometres", size=2).text) == {"size": 2, "unit": "km", "tags": None}
    sent = client.use("kilometres", size=2, unit="m")
    assert "error" in sent.response or sent.failed
    wrong = client.use("kilometres", size=11)
    assert "error" in wrong.response or wrong.failed


@pytest.mark.requirement("TOOL-23", "TITLE-01")
@pytest.mark.parametrize("version", VERSIONS)
def test_text_of_an_administrator_overrides_code(
    version: str, connect: Connect, office: AnotherProcess
) -> None:
    words = {"title": "Say it again", "description": "Repeats."}
    office.run(CHANGE.format(kind="Tool"), name="echo", values=words)
    client = connect(version)
    eventually(lambda: client.entry("tools/list", "echo")["description"] == "Repeats.", 2)
    title = client.entry("tools/list", "echo").get("title")
    assert title == (None if version == "2025-03-26" else "Say it again")


@pytest.mark.requirement("TOOL-08", "TOOL-21", "PROMPT-03", "RES-06")
@pytest.mark.parametrize(
    ("kind", "name", "method", "key", "code"),
    [
        ("Tool", "echo", "tools/call", {"name": "echo", "arguments": {"text": "x"}}, -32602),
        ("Prompt", "simple", "prompts/get", {"name": "simple"}, -32602),
        ("Resource", "binary", "resources/read", {"uri": "doc://binary"}, -32002),
        ("ResourceTemplate", "item", "resources/read", {"uri": "doc://item/5"}, -32002),
    ],
)
@pytest.mark.parametrize("change", [{"enabled": False}, {"permission": PERMISSION}])
def test_disabled_or_restricted_entry_is_no_longer_served(
    kind: str, name: str, method: str, key: dict[str, Any], code: int, change: dict[str, Any],
    connect: Connect, office: AnotherProcess, keys: dict[str, str],
) -> None:  # fmt: skip
    client, reader = connect(process=1), connect(process=1, token=keys["reader"])
    assert client.converse(method, key).result
    office.run(CHANGE.format(kind=kind), name=name, values=change)
    eventually(lambda: "error" in client.converse(method, key).response, 2)
    assert client.converse(method, key).error["code"] == code
    for listing in LISTS:
        assert name not in [entry["name"] for entry in client.listed(listing)] or name == "item"
    assert ("result" in reader.converse(method, key).response) == ("permission" in change)


@pytest.mark.requirement("TOOL-22")
def test_timeout_set_by_an_administrator_applies(connect: Connect, office: AnotherProcess) -> None:
    client = connect()
    office.run(CHANGE.format(kind="Tool"), name="wait", values={"timeout_seconds": 0.3})
    said = [client.use("wait", seconds=1, mark="deadline") for _ in range(3)]
    office.run(CHANGE.format(kind="Tool"), name="wait", values={"timeout_seconds": None})
    assert said[-1].failed
    assert "timed out after 0.3 seconds" in said[-1].text
