"""Start-time fair queueing: in which order the waiting calls of several people are begun.

A call that starts to wait gets a start tag: the tag that is being served now, or a step after the last call
of its person, whichever is later. The lowest tag is begun next. So a person who queues a thousand
calls spreads them over the future, and one who comes later with a single call is served before the second of
them (Goyal, Vin, Cheng: Start-time Fair Queuing, 1996). Tags are compared within a queue, lane and priority
only.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection

from mcp_app import conf
from mcp_app.protocol.principal_key import Person

_LINE = "queue = %(queue)s AND lane = %(lane)s AND priority = %(priority)s"
# Both are one look at the end of an index, however many calls wait. NULL: there is none.
_SERVED = f"SELECT MAX(start_tag) FROM mcp_app_call WHERE {_LINE} AND started_at IS NOT NULL"  # noqa: S608
_LAST = f"SELECT MAX(start_tag) + %(step)s FROM mcp_app_call WHERE person = %(person)s AND {_LINE}"  # noqa: S608
# Of two calls of one person that are accepted at the same moment, the second sees the first.
LOCK = "SELECT pg_advisory_xact_lock(1, hashtext(%(person)s))"


def start_tag_sql(vendor: str) -> str:
    """The tag of a call that starts to wait, as a term; its parameters are those of ``start_tag``."""
    greatest = "MAX" if vendor == "sqlite" else "GREATEST"
    return f"{greatest}(COALESCE(({_SERVED}), 0.0), COALESCE(({_LAST}), 0.0))"


def start_tag(*, person: Person, queue: str, lane: str, priority: int, step: float) -> float:
    """The same, for a call that is stored already: it was approved, or its client answered it."""
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
    """How far the calls of a user lie apart: the greater the weight of a user's groups, the closer."""
    if user_id is None or not conf.get().background_weights:
        return 1.0
    weights = conf.get().weights
    groups = get_user_model().objects.filter(pk=user_id, groups__name__in=weights)
    names = groups.values_list("groups__name", flat=True)
    return 1 / max((weights[name] for name in names), default=1.0)
