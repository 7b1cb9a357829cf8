"""A check of upstream servers: the outcome of the last request to each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mcp_app.doctor.finding import Finding, ok, warning
from mcp_app.doctor.installation import Installation
from mcp_app.models import Upstream
from mcp_app.upstreams import health

CHECK: Final = "upstreams.available"
MOST: Final = 100
REMEDY: Final = "Check the server, its URL and its credential, then read its lists again in the admin."


def available(_: Installation) -> Iterator[Finding]:
    """Report the servers whose last request failed. No request is sent."""
    rows = list(Upstream.objects.filter(enabled=True).values_list("pk", "name")[:MOST])
    failed = [(name, found) for pk, name in rows if (found := health.of(pk)).is_failed]
    for name, found in failed:
        yield warning(CHECK, f"the server {name} {found.text}", REMEDY)
    if rows and not failed:
        yield ok(CHECK, f"{len(rows)} upstream server{'s' * (len(rows) != 1)}, none of which failed last")


CHECKS = (available,)
