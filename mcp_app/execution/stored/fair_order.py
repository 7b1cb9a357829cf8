"""Start-time fair queueing: the order in which the waiting calls of several people are started.

When a call starts to wait, it gets a start tag. The tag is one step after the tag of its person's last
call, but not below the tag of the call that was started last. The call with the lowest tag starts next.
Thus the tags of one person's thousand calls grow step by step. A single call of another person starts
before the second of these calls (Goyal, Vin, Cheng: Start-time Fair Queuing, 1996). Tags are compared only
within a queue, lane and priority.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection

from mcp_app import conf
from mcp_app.protocol.principal_key import Person

_LINE = "queue = %(queue)s AND lane = %(lane)s AND priority = %(priority)s"
# Each query reads only the end of an index, however many calls wait. It returns NULL if there is no row.
_SERVED = f"SELECT MAX(start_tag) FROM mcp_app_call WHERE {_LINE} AND started_at IS NOT NULL"  # noqa: S608
_LAST = f"SELECT MAX(start_tag) + %(step)s FROM mcp_app_call WHERE person = %(person)s AND {_LINE}"  # noqa: S608
# Makes concurrent new calls of one person wait for each other, so that the second sees the first one's tag.
LOCK = "SELECT pg_advisory_xact_lock(1, hashtext(%(person)s))"


def start_tag_sql(vendor: str) -> str:
    """Return the SQL expression for a new start tag. Its parameters are the arguments of ``start_tag``."""
    greatest = "MAX" if vendor == "sqlite" else "GREATEST"
    return f"{greatest}(COALESCE(({_SERVED}), 0.0), COALESCE(({_LAST}), 0.0))"


def start_tag(*, person: Person, queue: str, lane: str, priority: int, step: float) -> float:
    """Return a new start tag for a stored call that was approved or whose client has answered."""
    values: dict[str, Any] = {
        "person": person,
        "queue": queue,
        "lane": lane,
        "priority": priority,
        "step": step,
    }
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {start_tag_sql(connection.vendor)}", values)
        return float(cursor.fetchone()[0])


def step(user_id: int | None) -> float:
    """Return the step between a user's start tags: 1 divided by the weight of the user's groups."""
    if user_id is None or not conf.get().background_weights:
        return 1.0
    weights = conf.get().weights
    groups = get_user_model().objects.filter(pk=user_id, groups__name__in=weights)
    names = groups.values_list("groups__name", flat=True)
    return 1 / max((weights[name] for name in names), default=1.0)
