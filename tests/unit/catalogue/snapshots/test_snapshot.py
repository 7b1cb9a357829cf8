"""A snapshot lists the entries visible to each caller, page by page, in a stable order."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import orjson
import pytest

from mcp_app.auth.principal import EVERYTHING
from mcp_app.catalogue.snapshots import pages
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.snapshots.snapshot import EMPTY, Catalogue
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.versions import V2025_03_26, V2025_06_18, V2025_11_25
from tests.unit.catalogue.entries import prompt_entry, resource_entry, tool_entry
from tests.views import seen

NOBODY: frozenset[str] = frozenset()
REVISIONS = {"tools": 1, "prompts": 1, "resources": 1}


def named(number: int, permission: str = "") -> ToolEntry:
    def function() -> int:
        return number

    return tool_entry(function, number, name=f"t{number}", permission=permission)


def catalogue(
    tools: Iterable[ToolEntry] = (), *, page_size: int = 2, revision: int = 1, **more: Any
) -> Catalogue:
    return Catalogue(
        revision=revision, revisions=REVISIONS, tools=tools, page_size=page_size, secret=b"key", **more
    )


def page(
    held: Catalogue, cursor: str | None = None, permissions: Container[str] = NOBODY
) -> tuple[list[str], str | None]:
    result = orjson.loads(seen(held, permissions).page("tools", V2025_11_25, cursor))
    return [item["name"] for item in result["tools"]], result.get("nextCursor")


def everything(held: Catalogue, permissions: Container[str] = NOBODY) -> list[str]:
    names, cursor = page(held, None, permissions)
    while cursor is not None:
        more, cursor = page(held, cursor, permissions)
        names += more
    return names


@pytest.mark.requirement("TOOL-01", "PROMPT-01", "RES-01", "TPL-01")
@pytest.mark.parametrize(
    ("kind", "member"),
    [
        ("tools", "tools"),
        ("prompts", "prompts"),
        ("resources", "resources"),
        ("templates", "resourceTemplates"),
    ],
)
def test_empty_snapshot_returns_empty_lists(kind: str, member: str) -> None:
    assert orjson.loads(seen(EMPTY, NOBODY).page(kind, V2025_11_25)) == {member: []}


@pytest.mark.requirement("PAGE-01", "TOOL-04")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_pages_contain_every_entry_once_in_order(count: int) -> None:
    held = catalogue([named(number) for number in reversed(range(1, count + 1))])
    assert everything(held) == [f"t{number}" for number in range(1, count + 1)]


@pytest.mark.requirement("PAGE-01")
def test_last_page_has_no_cursor() -> None:
    assert page(catalogue([named(1), named(2)]))[1] is None
    hidden = catalogue([named(1), named(2), named(3, "app.secret")])
    assert page(hidden) == (["t1", "t2"], None)


@pytest.mark.requirement("PAGE-03")
def test_cursor_works_in_other_process_after_entries_changed() -> None:
    first = catalogue([named(number) for number in (1, 2, 3, 5)])
    names, cursor = page(first)
    second = catalogue([named(number) for number in (1, 3, 4, 5, 6)], revision=9)
    names += page(second, cursor)[0]
    names += page(second, page(second, cursor)[1])[0]
    assert names == ["t1", "t2", "t3", "t4", "t5", "t6"]


@pytest.mark.requirement("PAGE-02")
@pytest.mark.parametrize("cursor", ["", "x", "A" * 40, "../../etc", "é"])
def test_invalid_cursor_is_rejected(cursor: str) -> None:
    with pytest.raises(InvalidParams):
        seen(catalogue([named(1)]), NOBODY).page("tools", V2025_11_25, cursor)


@pytest.mark.requirement("PAGE-02")
def test_cursor_of_other_list_or_other_permissions_is_rejected() -> None:
    held = catalogue([named(1), named(2), named(3), named(4, "app.secret")])
    cursor = page(held)[1]
    for kind, permissions in (("prompts", NOBODY), ("tools", frozenset({"app.secret"}))):
        with pytest.raises(InvalidParams):
            seen(held, permissions).page(kind, V2025_11_25, cursor)


@pytest.mark.requirement("TOOL-08", "RES-06")
def test_entry_without_permission_is_neither_listed_nor_found() -> None:
    held = catalogue([named(1), named(2, "app.use")], page_size=10)
    for permissions, names in ((NOBODY, ["t1"]), ({"app.use"}, ["t1", "t2"]), (EVERYTHING, ["t1", "t2"])):
        assert everything(held, permissions) == names
        assert [name for name in ("t1", "t2", "t3") if seen(held, permissions).tool(name)] == names


def test_page_is_encoded_once_per_visible_set_and_version() -> None:
    held = catalogue([named(1), named(2, "app.use")], page_size=10)
    first = seen(held, frozenset({"other.thing"})).page("tools", V2025_11_25)
    assert seen(held, NOBODY).page("tools", V2025_11_25) is first
    assert seen(held, NOBODY).page("tools", V2025_06_18) is not first


def test_page_cache_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    held = catalogue([named(1), named(2, "app.use")], page_size=10)
    monkeypatch.setattr(pages, "MAX_CACHED_BYTES", 1)
    first = seen(held, NOBODY).page("tools", V2025_11_25)
    assert seen(held, NOBODY).page("tools", V2025_11_25) is first
    seen(held, frozenset({"app.use"})).page("tools", V2025_11_25)
    assert seen(held, NOBODY).page("tools", V2025_11_25) is not first


@pytest.mark.requirement("TOOL-02")
def test_list_contains_only_members_of_its_revision() -> None:
    entry = tool_entry(lambda: None, name="t", icons=["https://example.com/i.png"], title="T")
    held = catalogue([entry])
    by_version = {
        version: set(orjson.loads(seen(held, NOBODY).page("tools", version))["tools"][0])
        for version in (V2025_03_26, V2025_06_18, V2025_11_25)
    }
    assert by_version[V2025_03_26] == {"name", "inputSchema"}
    assert by_version[V2025_06_18] == {"name", "inputSchema", "title"}
    assert by_version[V2025_11_25] == {"name", "inputSchema", "title", "icons"}


def read_note(slug: str) -> str:
    return slug


def read_year(year: int) -> str:
    return str(year)


def read_exact() -> str:
    return ""


@pytest.mark.requirement("TPL-02", "TPL-04", "RES-15")
def test_exact_resource_wins_then_first_template_without_normalization() -> None:
    held = catalogue(
        resources=[resource_entry(read_exact, "notes://today")],
        templates=[
            resource_entry(read_note, "notes://x-{slug}", 2),
            resource_entry(read_note, "notes://{slug}", 1),
        ],
    )

    def found(uri: str) -> tuple[str, dict[str, str]] | None:
        match = seen(held, NOBODY).resource(uri)
        return (match[0].uri, match[1]) if match else None

    assert found("notes://today") == ("notes://today", {})
    assert found("notes://x-1") == ("notes://{slug}", {"slug": "x-1"})
    assert found("NOTES://today") is None
    assert found("notes://a/b") is None
    assert found("notes://..") is None


def test_template_variable_of_wrong_type_matches_no_resource() -> None:
    held = catalogue(templates=[resource_entry(read_year, "years://{year}")])
    assert seen(held, NOBODY).resource("years://2025") is not None
    assert seen(held, NOBODY).resource("years://soon") is None


def test_template_without_permission_is_not_found() -> None:
    held = catalogue(templates=[resource_entry(read_note, "notes://{slug}", permission="app.use")])
    assert seen(held, NOBODY).resource("notes://1") is None
    assert seen(held, EVERYTHING).resource("notes://1") is not None


def review(code: str, language: str = "", number: str = "", other: str = "") -> str:
    return code


async def languages(value: str, others: Any) -> list[str]:
    return [value, others.get("code", ""), *others]


def completing() -> Catalogue:
    many = [f"v{number}" for number in range(150)]
    completions = {
        "language": ["Python", "JPython", "Go"],
        "number": lambda value, others: many,
        "other": languages,
    }
    return catalogue(
        prompts=[prompt_entry(review, completions=completions, permission="app.use")],
        templates=[resource_entry(read_note, "notes://{slug}", completions={"slug": ["a", "b"]})],
    )


PROMPT = {"type": "ref/prompt", "name": "review", "title": "ignored"}
TEMPLATE = {"type": "ref/resource", "uri": "notes://{slug}"}


@pytest.mark.requirement("COMP-02", "COMP-03", "COMP-06")
@pytest.mark.parametrize(
    ("ref", "argument", "value", "completed"),
    [
        (PROMPT, "language", "", (["Python", "JPython", "Go"], 3, False)),
        (PROMPT, "language", "py", (["Python", "JPython"], 2, False)),
        (PROMPT, "language", "x", ([], 0, False)),
        (PROMPT, "code", "x", ([], 0, False)),
        (PROMPT, "number", "", ([f"v{number}" for number in range(100)], 150, True)),
        (PROMPT, "other", "v", (["v", "given", "code"], 3, False)),
        (TEMPLATE, "slug", "a", (["a"], 1, False)),
        ({"type": "ref/resource", "uri": "notes://1"}, "slug", "b", (["b"], 1, False)),
    ],
)
async def test_argument_is_completed_from_its_candidates(
    ref: dict[str, str], argument: str, value: str, completed: Any
) -> None:
    others = {"code": "given", "unknown": "x"}
    assert await seen(completing(), EVERYTHING).complete(ref, argument, value, others) == completed


@pytest.mark.requirement("COMP-04", "COMP-05")
@pytest.mark.parametrize(
    ("ref", "argument", "permissions"),
    [
        (PROMPT, "language", NOBODY),
        (PROMPT, "missing", EVERYTHING),
        ({"type": "ref/prompt", "name": "missing"}, "language", EVERYTHING),
        ({"type": "ref/prompt"}, "language", EVERYTHING),
        ({"type": "ref/resource", "uri": "other://x"}, "slug", EVERYTHING),
        ({"type": "ref/tool", "name": "x"}, "slug", EVERYTHING),
        ({}, "slug", EVERYTHING),
    ],
)
async def test_unknown_or_hidden_reference_cannot_be_completed(
    ref: dict[str, str], argument: str, permissions: Container[str]
) -> None:
    with pytest.raises(InvalidParams):
        await seen(completing(), permissions).complete(ref, argument, "", {})


@pytest.mark.requirement("PROMPT-03", "PROMPT-04")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "Missing required prompt arguments: code"),
        ({"code": 1}, "'code' must be a string"),
        ({"code": "x", "extra": []}, "'extra' must be a string"),
    ],
)
def test_prompt_arguments_must_be_strings_and_complete(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidParams, match=complaint):
        prompt_entry(review).accept(arguments)


def test_unknown_prompt_arguments_are_dropped() -> None:
    assert prompt_entry(review).accept({"code": "x", "unknown": "y"}) == {"code": "x"}


def doubled(value: int, factor: int = 2) -> int:
    return value * factor


@pytest.mark.requirement("TOOL-10", "TOOL-21")
def test_arguments_are_validated_against_schema() -> None:
    entry = tool_entry(doubled)
    assert entry.check({"value": 1}) is None
    assert entry.check({"value": "1"}) == "value: expected integer, got '1'"


@pytest.mark.requirement("TOOL-22")
def test_tool_timeout_is_capped_by_server_maximum(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "TOOL_TIMEOUT_SECONDS": 7, "TOOL_TIMEOUT_MAX_SECONDS": 9}
    assert tool_entry(doubled, name="a").timeout == 7
    assert tool_entry(doubled, name="b", timeout=3).timeout == 3
    assert tool_entry(doubled, name="c", timeout=100).timeout == 9


def test_secret_argument_names_are_collected_at_any_depth() -> None:
    schema = {
        "type": "object",
        "properties": {
            "pin": {"type": "string", "writeOnly": True},
            "plain": {"type": "string"},
            "door": {"type": "object", "properties": {"code": {"type": "string", "format": "password"}}},
        },
    }

    def unlock(**arguments: Any) -> str:
        return "open"

    assert catalogue([tool_entry(unlock, input_schema=schema)]).secret_names == {"pin", "code"}


@pytest.mark.requirement("CACHE-06")
def test_cached_page_is_specific_to_permissions_version_and_cursor() -> None:
    tools = [named(1), named(2, "library.read"), named(3)]
    held = catalogue(tools)
    reader = frozenset({"library.read"})
    for _ in range(2):
        assert everything(held) == ["t1", "t3"]
        assert everything(held, reader) == ["t1", "t2", "t3"]
        assert everything(held, EVERYTHING) == ["t1", "t2", "t3"]
    first, cursor = page(held, None, reader)
    assert page(held, cursor, reader)[0] != first
    for version in (V2025_03_26, V2025_11_25):
        listed = orjson.loads(seen(held, NOBODY).page("tools", version))["tools"]
        assert ("title" in listed[0]) is (version == V2025_11_25)
    # An admin change creates a new snapshot with an empty page cache.
    changed = catalogue(tools[:1], revision=2)
    assert everything(changed, reader) == ["t1"]
    assert everything(held, reader) == ["t1", "t2", "t3"]
