"""A check of PostgreSQL's connection limit against the connections that the processes may open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import orjson
from django.db import connection

from mcp_app import conf
from mcp_app.database import queries
from mcp_app.doctor.finding import Finding, ok, warning
from mcp_app.doctor.installation import Installation
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.blocking.process_reports import ProcessReports

NEARLY_FULL = 0.9
# Limits of the server, of the role and of the database. The lowest one applies, and -1 means no limit.
ALLOWED = """
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    UNION ALL SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user
    UNION ALL SELECT datconnlimit FROM pg_database WHERE datname = current_database()
"""
# Every role may read this view. Sessions of other roles in pg_stat_activity need a permission.
USED = "SELECT sum(numbackends) FROM pg_stat_database"


def connections(installation: Installation) -> Iterator[Finding]:
    """Check that the limit is sufficient if every process opens its maximum number of connections."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(ALLOWED)
        allowed = min(limit for (limit,) in cursor.fetchall() if limit >= 0)
        cursor.execute(USED)
        used = int(cursor.fetchone()[0])
    running = _running(installation)
    yield connections_finding(allowed, used, running["web"] or 1, running["worker"])


def connections_finding(allowed: int, used: int, web: int, children: int) -> Finding:
    """Return the finding for a connection limit and the numbers of web processes and worker children."""
    check = "database.connections"
    of_web, of_child = queries.THREADS + conf.get().sync_threads, queries.THREADS + 1
    needed = web * of_web + children * of_child
    text = f"{allowed} are allowed, {used} are open; web processes ({web}, each {of_web}) and children of "
    text += f"workers ({children}, each {of_child}) keep {needed} at most"
    if needed > allowed or used > NEARLY_FULL * allowed:
        remedy = "Raise max_connections (or the limit of the role or database), lower SYNC_THREADS, "
        return warning(check, text, f"{remedy}or put a pooler such as PgBouncer between.")
    return ok(check, text)


def _running(installation: Installation) -> Counter[str]:
    """Count the processes that report to Redis, by kind. The result is empty if there are no reports."""
    if not installation.redis_url:
        return Counter()
    try:
        reports = ProcessReports(installation.redis_url).read()
    except StreamsUnavailable:
        return Counter()
    return Counter(str(orjson.loads(report).get("kind")) for report in reports)
