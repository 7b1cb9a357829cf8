"""Extensions defined by apps: errors are raised at import and name the extension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_app import extension
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.checks.configuration import permissions_of_code_exist
from mcp_app.protocol.versions import SERVED


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    with registry.isolated():
        yield


def move(shelf: str) -> dict[str, Any]:
    """Moves a shelf."""
    return {"moved": shelf}


def other(shelf: str) -> dict[str, Any]:
    """Moves a shelf, too."""
    return {"moved": shelf}


@pytest.mark.requirement("CAP-05")
def test_extension_has_prefixed_name_and_settings_object() -> None:
    made = extension("com.example/shelves", settings={"sorted": (1, 2)})
    assert registry.extensions == {"com.example/shelves": made}
    assert made.settings == {"sorted": [1, 2]}
    assert made.versions == set(SERVED)
    assert extension("io.modelcontextprotocol/ui").settings == {}


@pytest.mark.requirement("CAP-05")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shelves", "prefix of your own"),
        ("/shelves", "prefix of your own"),
        ("com.example/", "prefix of your own"),
        ("com..example/shelves", "prefix of your own"),
        ("com.example/shelves/more", "prefix of your own"),
        ("com.exämple/shelves", "prefix of your own"),
        (None, "prefix of your own"),
        ("com.mcp/shelves", "reserved"),
        ("com.modelcontextprotocol.x/shelves", "reserved"),
        ("io.modelcontextprotocol/tasks", "served by this server itself"),
    ],
)
def test_invalid_extension_id_is_rejected_by_name(name: Any, words: str) -> None:
    with pytest.raises(DefinitionError, match=words) as refused:
        extension(name)
    assert repr(name) in str(refused.value)
    assert not registry.extensions


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"settings": ["sorted"]}, "must be a dict"),
        ({"settings": {"when": object()}}, "must be JSON"),
        ({"versions": ["2031-01-01"]}, "2031-01-01"),
        ({"notifications": ["shelves/moved"]}, "begins with"),
        ({"notifications": ["notifications/progress"]}, "the protocol itself"),
        ({"notifications": ["notifications/"]}, "no name"),
    ],
)
def test_invalid_extension_option_is_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words) as refused:
        extension("com.example/shelves", **options)
    assert "com.example/shelves" in str(refused.value)
    assert not registry.extensions


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tools/list", "the protocol itself"),
        ("tasks/list", "the protocol itself"),
        ("roots/list", "the protocol itself"),
        ("notifications/moved", "notification"),
        ("move", "no name"),
        ("shelves/", "no name"),
        ("shelves/mo ve", "no name"),
        ("shelves/" + "x" * 200, "no name"),
        (7, "no name"),
    ],
)
def test_invalid_method_name_is_rejected(name: Any, words: str) -> None:
    made = extension("com.example/shelves")
    with pytest.raises(DefinitionError, match=words) as refused:
        made.method(name)(move)
    assert f"{__name__}.move" in str(refused.value)
    assert not made.methods


def test_duplicate_extension_or_method_is_rejected() -> None:
    made = extension("com.example/shelves")
    assert made.method("shelves/move")(move) is move
    with pytest.raises(DefinitionError, match="already an extension"):
        extension("com.example/shelves")
    with pytest.raises(DefinitionError, match=r"already a method .*test_extensions\.move"):
        extension("com.example/more").method("shelves/move")(other)


def test_method_requires_type_hints_and_existing_permission() -> None:
    made = extension("com.example/shelves")
    with pytest.raises(DefinitionError, match="needs a type hint"):
        made.method("shelves/move")(lambda shelf: {})
    with pytest.raises(DefinitionError, match=r"app_label\.codename"):
        made.method("shelves/move", permission="move")(move)
    made.method("shelves/move", permission="library.move")(move)
    assert [found.id for found in permissions_of_code_exist()] == ["mcp_app.W012"]
