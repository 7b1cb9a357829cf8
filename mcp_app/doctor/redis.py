"""Checks of Redis: reachable, recent enough, enough memory, persistent, accurate clock, not shared."""

from __future__ import annotations

from collections.abc import Iterator

from mcp_app.doctor.database import ROUND_TRIPS, SLOW_SECONDS, clock_finding
from mcp_app.doctor.finding import Finding, error, milliseconds, ok, skipped, warning
from mcp_app.doctor.installation import Installation
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.blocking import projects
from mcp_app.streams.blocking.server_facts import OLDEST, RedisServerView, cluster_fault
from mcp_app.streams.connections.client import CLUSTER, CLUSTER_REMEDY

FULL = 0.8
MIB = 1024 * 1024


def reachable(installation: Installation) -> Iterator[Finding]:
    """Check that Redis responds quickly."""
    check = "redis.reachable"
    if not installation.redis_url:
        remedy = "Start one, and set REDIS_URL."
        yield skipped(check, "no Redis is configured and no embedded one runs", remedy)
        return
    if cluster_fault(installation.redis_url):
        yield error(check, CLUSTER, CLUSTER_REMEDY)
        return
    try:
        server = RedisServerView(installation.redis_url)
        took = min(server.round_trip() for _ in range(ROUND_TRIPS))
    except StreamsUnavailable as fault:
        yield error(check, str(fault), "Start Redis, or correct REDIS_URL.")
        return
    text = f"responds in {milliseconds(took)}"
    if took > SLOW_SECONDS:
        yield warning(check, text, "Move it closer, or reduce its load.")
    else:
        yield ok(check, text)


def version(installation: Installation) -> Iterator[Finding]:
    """Check that the version of Redis has all required commands."""
    found = RedisServerView(installation.redis_url).facts().version
    text = f"has the commands of Redis {'.'.join(map(str, found))}"
    if not found:
        yield skipped("redis.version", "the version is unknown")
    elif found < OLDEST:
        yield error("redis.version", text, f"Use {'.'.join(map(str, OLDEST))} or newer, or Valkey.")
    else:
        yield ok("redis.version", text)


def memory(installation: Installation) -> Iterator[Finding]:
    """Check that Redis has a memory limit and uses less than that."""
    facts = RedisServerView(installation.redis_url).facts()
    if facts.used_memory is None or facts.max_memory is None:
        yield skipped("redis.memory", "the memory usage is unknown")
        return
    used = f"{facts.used_memory / MIB:.1f} MiB"
    if not facts.max_memory:
        text = f"{used} are used without a limit"
        yield warning(
            "redis.memory", text, "Set maxmemory, so that Redis refuses writes before it is killed."
        )
        return
    text = f"{used} of {facts.max_memory / MIB:.0f} MiB are used"
    if facts.used_memory > FULL * facts.max_memory:
        yield warning("redis.memory", text, "Raise maxmemory: a full Redis refuses calls and sessions.")
    else:
        yield ok("redis.memory", text)


def policy(installation: Installation) -> Iterator[Finding]:
    """Check that Redis never evicts keys."""
    found = RedisServerView(installation.redis_url).facts().policy
    if found is None:
        yield skipped("redis.policy", "maxmemory-policy is unknown; it must be noeviction")
    elif found != "noeviction":
        text = f"maxmemory-policy is {found}: a full Redis would drop queued calls and event streams"
        yield error("redis.policy", text, "Set maxmemory-policy to noeviction.")
    else:
        yield ok("redis.policy", "noeviction")


def append_only(installation: Installation) -> Iterator[Finding]:
    """Check that event streams and jobs survive a restart of Redis."""
    found = RedisServerView(installation.redis_url).facts().append_only
    if found is None:
        yield skipped("redis.append_only", "the state of the append-only file is unknown")
    elif not found:
        text = "the append-only file is off: a restart loses event streams and queued calls"
        yield warning("redis.append_only", text, "Set appendonly to yes.")
    else:
        yield ok("redis.append_only", "on")


def clock(installation: Installation) -> Iterator[Finding]:
    """Check that the clock of the Redis server agrees with the clock of this machine."""
    yield clock_finding("redis.clock", RedisServerView(installation.redis_url).skew())


def alone(installation: Installation) -> Iterator[Finding]:
    """Check that no other project uses the same Redis database."""
    check, others = "redis.alone", projects.others(installation.redis_url)
    if others:
        text = "another project uses this database of Redis: sessions, figures and message logs would mix"
        yield error(check, text, "Give each project a database of its own, as in REDIS_URL=redis://…/1.")
    else:
        yield ok(check, "no other project uses this database")


CHECKS = (version, memory, policy, append_only, clock, alone)
