"""A registry with one entry of each kind, and the list of announced revisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_app import prompt, resource, tool
from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.definitions.registry import Registry, registry
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import EMPTY


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def code_review(code: str) -> str:
    """Review code."""
    return code


def today() -> str:
    """Today's note."""
    return "today"


def note(slug: str) -> str:
    """One note."""
    return slug


@pytest.fixture(autouse=True)
def registered() -> Iterator[Registry]:
    """Register a tool, a prompt, a resource and a template."""
    with registry.isolated() as alone:
        tool(add)
        prompt(code_review)
        resource("notes://today")(today)
        resource("notes://{slug}")(note)
        yield alone


@pytest.fixture(autouse=True)
def announced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of announced revisions."""
    heard: list[int] = []
    monkeypatch.setattr(revisions, "broadcast", heard.append)
    return heard


@pytest.fixture(autouse=True)
def _unloaded() -> Iterator[None]:
    before = current_snapshot.replace(EMPTY)
    yield
    current_snapshot.replace(before)


@pytest.fixture
def someone(db: Any, django_user_model: Any) -> Any:
    """Create an administrator."""
    return django_user_model.objects.create_superuser("someone", password="x")
