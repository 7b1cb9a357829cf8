"""Measure what many rules and toolsets cost: ``python -m benchmarks.limits.crowd [--rounds N] [--row ROW]``.

Two servers of this checkout alternate as in ``benchmarks.compare``. One has 1,000 rules and 200 toolsets. Two
of its rules count every call that is measured; the others are about other users, groups and tools. A ratio
below 0.95 means that they cost the row more than 5 %.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.compare import Comparison, compare_requests
from benchmarks.processes import ROOT, cores
from tests.servers.live import LiveServer, eventually

AT_LEAST = 0.95
FILL = """
from django.contrib.auth.models import Group, User
from mcp_app.catalogue.toolsets.services import save_toolset
from mcp_app.models import LimitRule

User.objects.bulk_create(User(username=f"user-{n}") for n in range(500))
Group.objects.bulk_create(Group(name=f"group-{n}") for n in range(200))
amounts = {"rate": 100, "concurrent": 10, "budget": 100_000}
LimitRule.objects.bulk_create(
    [LimitRule(name=f"user-{n}", who="user", who_value=f"user-{n}", **amounts) for n in range(500)]
    + [LimitRule(name=f"group-{n}", who="group", who_value=f"group-{n}", **amounts) for n in range(200)]
    + [
        LimitRule(name=f"tool-{n}", who="installation", what="tool", what_value=f"other-{n}", **amounts)
        for n in range(298)
    ]
)
for n in range(200):
    save_toolset(actor=None, slug=f"team-{n}", audience="everyone",
                 members=[{"kind": "tool", "key": "echo"}], rules=[])
"""
# Two rules that count every call.
MATCHING = """
from mcp_app.limits.services import save_rule
from mcp_app.models import LimitRule

save_rule(actor=None, name="all", who="installation", rate=1_000_000, rate_period="second")
save_rule(actor=None, name="each", who="user", who_value="*", rate=1_000_000, rate_period="second")
print(LimitRule.objects.count())
"""


class Crowded(Comparison):
    """A comparison of two servers of this checkout. The first has the rules and toolsets."""

    def __init__(self) -> None:
        super().__init__(ROOT)

    @contextmanager
    def servers(self, **options: object) -> Iterator[tuple[LiveServer, LiveServer]]:
        """Run both servers, and fill the first."""
        with super().servers(**options) as (crowded, plain):
            assert crowded.shell(FILL + MATCHING).strip() == "1000"
            eventually(lambda: _serves(crowded, "team-199"), 60, "the last toolset")
            yield crowded, plain


def _serves(server: LiveServer, slug: str) -> bool:
    from tests.clients.raw_http import RawClient

    with RawClient("127.0.0.1", server.ports[0]) as client:
        return client.request("GET", f"/mcp/{slug}").status != 404


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--row", action="append", default=[], help="this row only; repeatable")
    wanted = parser.parse_args()
    if pins := cores():
        os.sched_setaffinity(0, {pins[1]})
    comparison = Crowded()
    compare_requests(comparison, wanted.rounds, wanted.seconds, wanted.row)
    lows = comparison.lows(AT_LEAST)
    print(f"below {AT_LEAST}: {', '.join(' '.join(row) for row in lows) or 'none'}")
    return 1 if lows else 0


if __name__ == "__main__":
    sys.exit(main())
