"""Tools that query, and tools that change state of a thread or a task."""

from __future__ import annotations

from uuid import uuid4

from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.utils import timezone, translation

from mcp_app import ToolError, tool


def _ask(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        found: int = cursor.fetchone()[0]
        return found


@tool
def look_up() -> list[int]:
    """One indexed query; the number of its database connection, and how many are open meanwhile."""
    ContentType.objects.values_list("model", flat=True).get(pk=1)
    return [
        _ask("SELECT pg_backend_pid()"),
        _ask(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND backend_type = 'client backend'"
        ),
    ]


@tool
def enrol(group: str, fails: bool = False) -> int:
    """Enrol a group."""
    Group.objects.create(name=group)
    if fails:
        raise ToolError("no room")
    return Group.objects.count()


@tool(atomic=True)
def enrol_whole(group: str, fails: bool = False) -> int:
    """Enrol a group, or nothing."""
    return enrol(group, fails)


@tool
def leave_transaction_open() -> bool:
    """Turn autocommit off, and write a row that nobody commits."""
    connection.set_autocommit(False)
    Group.objects.create(name=f"never committed {uuid4()}")
    return not connection.get_autocommit()


@tool
def groups() -> list[str]:
    """The names of all groups."""
    return list(Group.objects.order_by("name").values_list("name", flat=True))


def _seen() -> list[str]:
    return [translation.get_language(), timezone.get_current_timezone_name()]


def _change() -> list[str]:
    translation.activate("fr")
    timezone.activate("Asia/Tokyo")
    return _seen()


@tool
async def seen() -> list[str]:
    """Language and time zone, without waiting."""
    return _seen()


@tool
def seen_in_thread() -> list[str]:
    """Language and time zone, in a thread."""
    return _seen()


@tool
async def change() -> list[str]:
    """Change both, without waiting."""
    return _change()


@tool
def change_in_thread() -> list[str]:
    """Change both, in a thread."""
    return _change()
