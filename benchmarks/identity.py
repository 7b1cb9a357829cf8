"""The cost of identifying the caller: ``python -m benchmarks.identity``.

Processor time of the server for one call without a credential, with a token of the embedded
authorization server, and with the JWT of an identity provider; the first use of a token that no process
has cached; and the rows of the catalogue with two users and with 1,000 users in 200 groups. All rows of
a round take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import uvloop

from benchmarks import load, scenarios
from benchmarks.processes import cores, load_core
from benchmarks.servers import pin
from tests.servers.identity_provider import IdentityProvider
from tests.servers.live import LiveServer, cpu_seconds

PEOPLE, GROUPS = 1_000, 200
CONNECTIONS = 32
# Identical processes differ by up to 3 µs per call, so the mean of these is compared.
ALIKE = 3
# Tokens used for the first time: enough of each kind for these rounds and seconds.
UNSEEN, UNSEEN_ROUNDS, UNSEEN_SECONDS = 6_000, 5, 0.3
MOST_MICROSECONDS = 5.0
MOST_FIRST_MS = {"opaque token": 2.0, "JWT": 1.0}
MOST_CHANGE = 1.05
AUDIENCE = "api://bench"
# Some providers include every group of a user in their tokens.
LONG = "x" * 5_600
PREPARED = """
import json
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.utils import timezone
from mcp_app.auth.own_addresses import resource
from mcp_app.oauth import secrets
from mcp_app.oauth.models import AccessToken, Client, Connection

users = get_user_model().objects
people = users.bulk_create([users.model(username=f"person{{n}}") for n in range({people})])
groups = Group.objects.bulk_create([Group(name=f"group{{n}}") for n in range({groups})])
through = users.model.groups.through.objects
through.bulk_create(
    [through.model(user=person, group=groups[(n + k) % len(groups)])
     for n, person in enumerate(people) for k in range(min(5, len(groups)))]
)
ada = users.create_user("ada")
ada.groups.set(groups)
ends = timezone.now() + timedelta(hours=1)
client = Client.objects.create(client_id="bench", redirect_uris="https://a.example/")
scope = "mcp mcp:tools mcp:resources mcp:prompts"
connection = Connection.objects.create(
    user=ada, client=client, resource=resource(), scope=scope, redirect_uri="https://a.example/", ends_at=ends
)
tokens = [secrets.new(secrets.ACCESS) for _ in range({tokens})]
AccessToken.objects.bulk_create(
    [AccessToken(connection=connection, digest=secrets.digest(token), scope=scope, expires_at=ends)
     for token in tokens]
)
print(json.dumps(tokens))
"""
Make = Callable[[], load.Script]


def bearer(token: str) -> dict[str, str]:
    """Return the header that carries the token."""
    return {"Authorization": f"Bearer {token}"}


@dataclass
class Row:
    """One measured row: by round, the server's processor time and the elapsed time, in µs."""

    name: str
    server: LiveServer
    make: Make
    connections: int = CONNECTIONS
    costs: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def once(self, seconds: float) -> None:
        pid = self.server.processes[0].pid
        scripts = [self.make() for _ in range(self.connections)]
        measured = uvloop.run(load.drive(self.server.ports[0], scripts, seconds, lambda: cpu_seconds(pid)))
        self.costs.append(measured.cpu_microseconds)
        self.times.append(self.connections / measured.per_second * 1e6)


def calls(name: str, server: LiveServer, headers: dict[str, str] | None) -> Row:
    """Return a row of ``tools/call`` in sessions, all with the same headers."""
    port = server.ports[0]
    return Row(name, server, lambda: scenarios.repeated(port, scenarios.ECHO, scenarios.check_echo, headers))


def one_by_one(name: str, server: LiveServer, tokens: Iterable[str]) -> Row:
    """Return a row of sequential requests, each with the next token."""
    port, headers = server.ports[0], map(bearer, tokens)
    return Row(name, server, lambda: scenarios.each_once(port, scenarios.DISCOVER, headers), connections=1)


def catalogue(server: LiveServer, headers: dict[str, str], size: int) -> list[Row]:
    """Return the rows that the number of users could affect."""
    port = server.ports[0]
    checks: dict[str, tuple[dict[str, Any], Callable[[load.Reply], None]]] = {
        "tools/call echo": (scenarios.ECHO, scenarios.check_echo),
        "ping": (scenarios.PING, scenarios.check_ping),
        f"tools/list {size}": (scenarios.TOOLS_LIST, scenarios.check_tools(size, paged=True)),
    }
    return [
        Row(name, server, lambda asked=asked: scenarios.repeated(port, *asked, headers))  # type: ignore[misc]
        for name, asked in checks.items()
    ]


def started(stack: ExitStack, size: int, **environment: str) -> LiveServer:
    """Start a server on the first core, with Redis on the other one."""
    # With the same hash seed in all processes, differences do not come from the order of sets.
    env = {"BENCH_TOOLS": str(size), "DEMO": "off", "PYTHONHASHSEED": "0", **environment}
    server = stack.enter_context(LiveServer(1, settings="benchmarks.settings", env=env))
    pins = cores()
    if pins is not None and server.redis.process is not None:
        pin(server.processes[0].pid, pins[0])
        pin(server.redis.process.pid, pins[1])
    return server


def prepared(server: LiveServer, people: int, groups: int, tokens: int) -> list[str]:
    """Create users, groups and tokens. Return the tokens of one user, who is in every group."""
    code = PREPARED.format(people=people, groups=groups, tokens=tokens)
    found: list[str] = json.loads(server.shell(code).strip().splitlines()[-1])
    return found


def emit(**facts: object) -> None:
    """Print one JSON object on its own line."""
    print(json.dumps(facts), flush=True)


def measure(rounds: int, seconds: float, size: int = 100) -> bool:
    """Run all rounds and return True if every target is met."""
    with ExitStack() as stack:
        provider = stack.enter_context(IdentityProvider())
        few, *others = alike(stack, size, MCP_AUTH="required")
        many = started(stack, size, MCP_AUTH="required")
        external, *others_external = alike(
            stack, size, MCP_AUTH="external", OAUTH_ISSUER=provider.issuer, OAUTH_AUDIENCE=AUDIENCE,
            OAUTH_CREATE_USERS="on", EGRESS_ALLOW="127.0.0.0/8",
        )  # fmt: skip
        token, *opaque = prepared(few, 1, 1, UNSEEN)
        (of_many,) = prepared(many, PEOPLE, GROUPS, 1)
        jwts = [provider.token(aud=AUDIENCE, jti=str(number)) for number in range(UNSEEN)]
        jwt = bearer(provider.token(aud=AUDIENCE))
        none = [calls("no credential", server, None) for server in alike(stack, size)]
        known = [
            [
                calls("opaque token", few, bearer(token)),
                *(calls("opaque token", other, bearer(*prepared(other, 1, 1, 1))) for other in others),
            ],
            [calls("JWT", server, jwt) for server in (external, *others_external)],
        ]
        longest = calls("JWT of 8 KB", external, bearer(provider.token(aud=AUDIENCE, groups=LONG)))
        unseen = [
            (one_by_one("opaque token", few, opaque), one_by_one("known", few, repeat(token))),
            (one_by_one("JWT", external, jwts), one_by_one("known", external, repeat(jwts[-1]))),
        ]
        pairs = list(
            zip(catalogue(few, bearer(token), size), catalogue(many, bearer(of_many), size), strict=True)
        )
        stack.enter_context(load_core())
        rows = [*none, *chain(*known), longest, *chain(*pairs)]
        for number in range(rounds):
            for row in rows[:: 1 if number % 2 else -1]:
                row.once(seconds)
            for row in chain(*unseen) if number < UNSEEN_ROUNDS else ():
                row.once(UNSEEN_SECONDS)
    return judge(none, known, longest, unseen, pairs)


def alike(stack: ExitStack, size: int, **environment: str) -> list[LiveServer]:
    """Start servers that differ only in their memory layout."""
    return [started(stack, size, **environment) for _ in range(ALIKE)]


def mean(rows: list[Row]) -> list[float]:
    """Return the mean cost of a call in identical servers, by round."""
    return [statistics.mean(costs) for costs in zip(*(row.costs for row in rows), strict=True)]


def judge(
    none: list[Row],
    known: list[list[Row]],
    longest: Row,
    unseen: list[tuple[Row, Row]],
    pairs: list[tuple[Row, Row]],
) -> bool:
    """Compare with the targets. The long token is only reported: most of its cost is its size."""
    met = []
    floor = mean(none)
    emit(work="tools/call", caller=none[0].name, median_cpu_us=round(statistics.median(floor), 1))
    for rows in (*known, [longest]):
        more = statistics.median(a - b for a, b in zip(mean(rows), floor, strict=True))
        good = more <= MOST_MICROSECONDS
        emit(target="µs of a call more than without a credential", caller=rows[0].name, value=round(more, 1),
             **({"at_most": MOST_MICROSECONDS, "met": good} if rows != [longest] else {}))  # fmt: skip
        met.append(good or rows == [longest])
    for row, again in unseen:
        took = statistics.median(a - b for a, b in zip(row.times, again.times, strict=True)) / 1e3
        spent = statistics.median(a - b for a, b in zip(row.costs, again.costs, strict=True)) / 1e3
        most = MOST_FIRST_MS[row.name]
        met.append(took <= most)
        emit(target="ms of a first sight, more than of a known token", caller=row.name, value=round(took, 2),
             cpu=round(spent, 2), at_most=most, met=met[-1])  # fmt: skip
    for few, many in pairs:
        change = statistics.median(b / a for a, b in zip(few.costs, many.costs, strict=True))
        met.append(change <= MOST_CHANGE)
        emit(target=f"{few.name} with {PEOPLE:,} people in {GROUPS} groups, of that with two",
             value=round(change, 3), at_most=MOST_CHANGE, met=met[-1])  # fmt: skip
    return all(met)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5)
    wanted = parser.parse_args(arguments)
    return 0 if measure(wanted.rounds, wanted.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
