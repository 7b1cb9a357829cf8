"""Skills in folders: listing, fetching and reading; an invalid skill prevents startup."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from mcp_app.catalogue.definitions.registry import registry
from mcp_app.contrib.skills import conf, folders, serving
from mcp_app.contrib.skills.serving import Skills
from mcp_app.testing import Client, RequestError
from tests.conformance.fixture.samples import red_pixel

MODERN, OLD = "2026-07-28", "2025-11-25"
TRAVEL, TRAINS = "skill://office/travel/SKILL.md", "skill://office/travel/trains/SKILL.md"
FORMS, TABLE = "skill://forms/SKILL.md", "skill://forms/more/a%20table.csv"
PICTURE = red_pixel()


def write(folder: Path, name: str, **files: str | bytes) -> Path:
    """Write one skill; file names use ``__`` for a slash and omit extensions."""
    place = folder / name
    place.mkdir(parents=True)
    told = f"---\nname: {place.name}\ndescription: About {place.name}.\nsince: 2026-01-02\n---\nRead.\n"
    (place / "SKILL.md").write_text(told)
    for path, content in files.items():
        file = place / path.replace("__", "/").replace("_DOT_", ".").replace("_SPACE_", " ")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "office/travel", map_DOT_png=PICTURE, _DOT_hidden="x", __pycache____x_DOT_pyc="x")
    write(tmp_path, "office/travel/trains", times="Every hour, and in Köln twice.")
    write(tmp_path, "forms", more__a_SPACE_table_DOT_csv="a,b\r\n", more__deep__note_DOT_md="# Note")
    (tmp_path / "README.md").write_text("Not part of any skill.")
    return tmp_path


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    with registry.isolated():
        yield


def serve(root: Path) -> dict[str, folders.Skill]:
    found = folders.find([root])
    serving.offer(Skills(found))
    return found


@pytest.mark.requirement("EXT-02")
async def test_skills_are_announced_listed_and_fetched(root: Path) -> None:
    serve(root)
    async with Client(version=MODERN) as client:
        announced = client.server["capabilities"]
        listed = await client.request("skills/list")
        got = await client.request("skills/get", {"uri": TRAVEL})
        with pytest.raises(RequestError, match="no such skill") as refused:
            await client.request("skills/get", {"uri": "skill://office/SKILL.md"})
    assert announced["extensions"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
    assert "resources" in announced
    assert [skill["uri"] for skill in listed["skills"]] == [FORMS, TRAVEL, TRAINS]
    assert listed["skills"][1] == got["skill"]
    assert got["skill"]["frontmatter"] == {
        "name": "travel",
        "description": "About travel.",
        "since": "2026-01-02",
    }
    for result in (listed, got):
        assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
        assert "nextCursor" not in result
    assert refused.value.code == -32602


@pytest.mark.requirement("EXT-02")
async def test_skill_files_are_resources_with_listed_size_and_digest(root: Path) -> None:
    serve(root)
    async with Client(version=MODERN) as client:
        skills = (await client.request("skills/list"))["skills"]
        resources = {found["uri"]: found for found in await client.list_resources()}
        told = {file["uri"]: file for skill in skills for file in skill["resources"]}
        read = {uri: (await client.read_resource(uri))[0] for uri in told}
    # Files of a nested skill belong to both skills.
    assert [len(skill["resources"]) for skill in skills] == [3, 4, 2]
    assert resources.keys() == told.keys() == read.keys()
    for uri, file in told.items():
        content = read[uri]
        data = content["text"].encode() if "text" in content else PICTURE
        assert file["size"] == resources[uri]["size"] == len(data)
        assert file["digest"] == "sha256:" + hashlib.sha256(data).hexdigest()
    assert resources[TRAVEL]["name"] == "travel"
    assert resources[TRAVEL]["description"] == "About travel."
    assert resources[TRAVEL]["mimeType"] == read[TRAVEL]["mimeType"] == "text/markdown"
    assert read[TABLE]["text"] == "a,b\r\n"
    assert read["skill://office/travel/map.png"]["blob"]
    assert read["skill://office/travel/trains/times"]["mimeType"] == "text/plain"


@pytest.mark.requirement("EXT-02")
async def test_directory_read_lists_direct_children(root: Path) -> None:
    serve(root)
    async with Client(version=MODERN) as client:
        top = await client.request("resources/directory/read", {"uri": "skill://forms"})
        more = await client.request("resources/directory/read", {"uri": "skill://forms/more"})
        for uri in (FORMS, "skill://forms/", "skill://office", "skill://forms/none", "x"):
            with pytest.raises(RequestError, match="no such directory") as refused:
                await client.request("resources/directory/read", {"uri": uri})
            assert refused.value.code == -32602
    kinds = {child["uri"]: child["mimeType"] for child in (*top["resources"], *more["resources"])}
    assert kinds == {
        FORMS: "text/markdown",
        "skill://forms/more": "inode/directory",
        TABLE: "text/csv",
        "skill://forms/more/deep": "inode/directory",
    }


async def pages(client: Client, method: str, member: str, **params: str) -> list[list[str]]:
    found: list[list[str]] = []
    while True:
        result = await client.request(method, params)
        found.append([item["uri"] for item in result[member]])
        if "nextCursor" not in result:
            return found
        params["cursor"] = result["nextCursor"]


async def test_long_lists_are_paginated(root: Path, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "PAGE_SIZE": 2}
    serve(root)
    async with Client(version=MODERN) as client:
        assert await pages(client, "skills/list", "skills") == [[FORMS, TRAVEL], [TRAINS]]
        uri = "skill://office/travel"
        found = await pages(client, "resources/directory/read", "resources", uri=uri)
        assert found == [[TRAVEL, f"{uri}/map.png"], [f"{uri}/trains"]]
        for method in ("skills/list", "resources/directory/read"):
            with pytest.raises(RequestError, match="cursor") as refused:
                await client.request(method, {"uri": uri, "cursor": "AAAA"})
            assert refused.value.code == -32602


@pytest.mark.parametrize("withheld", [TRAINS, "skill://office/travel/trains/times"])
async def test_skill_with_withheld_file_is_hidden(root: Path, withheld: str) -> None:
    serve(root)
    del registry.resources[withheld]
    async with Client(version=MODERN) as client:
        assert await pages(client, "skills/list", "skills") == [[FORMS]]
        with pytest.raises(RequestError, match="no such skill"):
            await client.request("skills/get", {"uri": TRAVEL})
        folder = {"uri": "skill://office/travel/trains"}
        children = (await client.request("resources/directory/read", folder))["resources"]
        assert [child["uri"] for child in children] != [withheld]
        registry.resources.clear()
    async with Client(version=MODERN) as client:
        with pytest.raises(RequestError, match="no such directory"):
            await client.request("resources/directory/read", folder)


async def test_older_client_gets_capability_twice_and_no_cache_hints(root: Path) -> None:
    serve(root)
    async with Client(version=OLD) as client:
        for member in ("extensions", "experimental"):
            assert "io.modelcontextprotocol/skills" in client.server["capabilities"][member]
        listed = await client.request("skills/list")
    assert listed.keys() == {"skills"}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda root: (root / "forms" / "SKILL.md").write_text("Read."),
            r"forms/SKILL\.md: it does not",
        ),
        (lambda root: (root / "forms" / "SKILL.md").write_bytes(b"\xff\xfe"), "not text in UTF-8"),
        (lambda root: (root / "SKILL.md").write_text("x"), "folder of its own"),
        (lambda root: (root / "forms" / "link").symlink_to("/etc/passwd"), "forms/link: a skill must not"),
        (lambda root: (root / "forms" / "folder").symlink_to("/etc"), "forms/folder: a skill must not"),
        (lambda root: [(root / "forms" / str(n)).touch() for n in range(512)], "at most 512 files"),
        (lambda root: (root / "forms" / "large").write_bytes(bytes(7 * 2**20)), "too large to be sent"),
    ],
)
def test_invalid_skill_raises_with_file_name(root: Path, spoil: Any, words: str) -> None:
    spoil(root)
    with pytest.raises(ImproperlyConfigured, match=words):
        folders.find([root])


def test_skill_above_16_mib_is_rejected(tmp_path: Path) -> None:
    place = write(tmp_path, "forms")
    for number in range(3):
        (place / str(number)).write_bytes(bytes(6 * 2**20))
    with pytest.raises(ImproperlyConfigured, match="16 MiB"):
        folders.find([tmp_path])


def test_same_skill_in_two_folders_is_rejected(root: Path, tmp_path_factory: Any) -> None:
    other = tmp_path_factory.mktemp("other")
    write(other, "forms")
    with pytest.raises(ImproperlyConfigured, match="is the same skill"):
        folders.find([root, other])


def test_skill_roots_come_from_apps_and_settings(root: Path, settings: Any, monkeypatch: Any) -> None:
    assert list(conf.roots()) == []
    settings.MCP_SKILLS = {"DIRECTORIES": [str(root / "office"), root]}
    assert list(conf.roots()) == [root / "office", root]
    (root / "skills").mkdir()
    monkeypatch.setattr(apps.get_app_config("mcp_app"), "path", str(root))
    assert list(conf.roots()) == [root / "skills", root / "office", root]
    settings.MCP_SKILLS = {"APP_DIRECTORIES": False}
    assert list(conf.roots()) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"FOLDERS": []}, "no key 'FOLDERS'"),
        ({"DIRECTORIES": "/"}, "a list of folders"),
        ({"DIRECTORIES": [7]}, "a list of folders"),
        ({"DIRECTORIES": ["/nowhere/at/all"]}, "'/nowhere/at/all', which is not a folder"),
        ({"APP_DIRECTORIES": 1}, "True or False"),
    ],
)
def test_invalid_setting_is_named(values: dict[str, Any], words: str, settings: Any) -> None:
    settings.MCP_SKILLS = values
    with pytest.raises(ImproperlyConfigured, match=words):
        list(conf.roots())


def test_skill_entries_are_json_serializable(root: Path) -> None:
    assert all(orjson.dumps(skill.entry) for skill in serve(root).values())
