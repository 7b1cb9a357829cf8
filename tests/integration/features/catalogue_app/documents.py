"""Resources and templates of every kind of content, failure and address."""

from __future__ import annotations

from typing import Any

from mcp_app import File, resource
from tests.conformance.fixture.samples import PIXEL
from tests.integration.features.catalogue_app.values import ICON, PERMISSION


@resource(
    "doc://text",
    name="text",
    title="A text",
    mime_type="text/plain",
    icons=[{"src": ICON, "mimeType": "image/png"}],
    meta={"example.com/colour": "red"},
    annotations={"audience": ["user"], "priority": 1.0, "lastModified": "2025-11-25T12:00:00Z"},
    size=11,
)
def text() -> str:
    """A short text."""
    return "Hello there"


@resource("doc://binary", mime_type="image/png")
def binary() -> bytes:
    """A picture."""
    return PIXEL


@resource("doc://json", mime_type="application/json")
async def as_json() -> dict[str, Any]:
    """A JSON value."""
    return {"answer": 42}


@resource("doc://directory")
def directory() -> list[File]:
    """Several contents in one read."""
    return [
        File("first", "text/plain", "doc://directory/first"),
        File(b"\x00\x01", "application/octet-stream", "doc://directory/second"),
    ]


@resource("doc://nothing")
def nothing() -> None:
    """Listed, but there is nothing behind it now."""


@resource("doc://lost")
def lost() -> str:
    """Listed, but its file is gone."""
    raise FileNotFoundError("/srv/private/path")


@resource("doc://broken")
def broken() -> str:
    """Fails with words that must not leave the server."""
    raise RuntimeError("password hunter2")


@resource("doc://restricted", permission=PERMISSION)
def restricted() -> str:
    """Only for those who may."""
    return "for the few"


@resource("doc://item/0")
def zero() -> str:
    """One of the items has an entry of its own."""
    return "exactly zero"


@resource(
    "doc://item/{key}",
    name="item",
    title="An item",
    mime_type="text/plain",
    icons=[{"src": ICON, "mimeType": "image/png"}],
    meta={"example.com/colour": "white"},
    annotations={"priority": 0.1, "lastModified": "2025-11-25T12:00:00Z"},
    completions={"key": ["alpha", "beta", "alphabet"]},
)
def item(key: str) -> str:
    """An item by its key."""
    return f"item {key}"


@resource("doc://{kind}/last", name="last")
def last(kind: str) -> str:
    """Fits some of the items as well, but comes later."""
    return f"last {kind}"


@resource("tree://{+path}", name="tree")
def tree(path: str) -> str:
    """Any path below the tree."""
    return f"leaf {path}"


@resource("year://{year}", name="year")
def year(year: int) -> str:
    """A number in an address."""
    return f"year {year + 0}"


@resource("vault://{name}", name="vault", permission=PERMISSION, completions={"name": ["gold"]})
def vault(name: str) -> str:
    """Only for those who may."""
    return f"vault {name}"


@resource("large://{size}", name="large")
def large(size: int) -> str:
    """A text of that many characters."""
    return "x" * size
