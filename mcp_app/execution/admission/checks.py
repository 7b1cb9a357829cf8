"""The checks of the gate. Each has a form for an event loop (``soon``) and one for threads (``now``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Final, Protocol

from django.db import DatabaseError

from mcp_app import conf
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.definitions.tool_limits import ToolLimits
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.conf import Settings
from mcp_app.database.queries import aquery_soon
from mcp_app.models import Call
from mcp_app.protocol.call_state import OPEN, State
from mcp_app.protocol.errors import McpError
from mcp_app.protocol.principal_key import Bound, Person, Share, person_of, share_of
from mcp_app.protocol.refusals import Code, refused
from mcp_app.sessions import quota
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.blocking.counting import count
from mcp_app.streams.gateway import Streams

MINUTE: Final = 60
BACKLOG_SECONDS: Final = 5
# People whose open calls one process remembers.
REMEMBERED = 10_000
RATE = "Rate limit: {} may be called {} times a minute. Try again later."
RUNNING = "Too many running calls: wait for one to end, or cancel one."
BACKLOG = "Too many background calls wait or run: wait for some to end, or cancel some."
APPROVALS = "Too many calls wait for approval: wait for a decision, or cancel one."
NO_DATABASE = "The server cannot store the call now. Try again in a moment."
NO_WAITING = (
    "{} needs an operator's approval, and this call cannot wait for it: "
    "send it by itself, not in a batch, to a server with a worker."
)
UNKNOWN_CALLER = (
    "{} has to be approved by somebody else than asks: call it with an API key, which says who asks."
)


class Queued(Protocol):
    """A call that a worker is to run; ``approval_minutes`` is None if it needs no approval."""

    @property
    def principal(self) -> str: ...

    @property
    def user_id(self) -> int | None: ...

    @property
    def tool(self) -> str: ...

    @property
    def limits(self) -> ToolLimits: ...

    @property
    def approval_minutes(self) -> int | None: ...

    @property
    def four_eyes(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Inline:
    """A call that runs in this process; ``running`` counts what each person runs here already.

    One that ``may_wait`` asks its client first and is then a background call.
    """

    principal: str
    user_id: int | None
    tool: str
    limits: ToolLimits
    approval_minutes: int | None
    four_eyes: bool
    running: Mapping[Share, int]
    may_wait: bool = False

    @classmethod
    def of(
        cls,
        entry: ToolEntry,
        principal: Principal,
        running: Mapping[Share, int],
        *,
        may_wait: bool = False,
    ) -> Inline:
        """Return the call of a tool by a principal."""
        minutes = entry.approval_minutes if entry.needs_approval else None
        marks = entry, minutes, entry.four_eyes
        return cls(principal.key, principal.user_id, entry.name, *marks, running, may_wait)


class Check(ABC):
    """One check of a web process. ``concerns`` returns something false for calls that it never refuses.

    ``limit`` is the member of ``ToolLimits`` that makes it concern calls that run inline; "" for none.
    """

    limit: ClassVar = ""
    of_queued: ClassVar = True
    of_inline: ClassVar = True
    concerns: ClassVar[attrgetter[Any]] = attrgetter("principal")

    def __init__(self, streams: Streams, settings: Settings) -> None:
        self._streams, self._settings = streams, settings

    @abstractmethod
    async def soon(self, call: Any) -> None:
        """Raise McpError if a call may not begin."""

    @staticmethod
    @abstractmethod
    def now(call: Any) -> None:
        """Raise McpError if a call may not begin, without an event loop."""


class CallsPerMinute(Check):
    """A tool is called so many times a minute by one person, in whichever way: all count in one window."""

    limit = "calls_per_minute"
    concerns = attrgetter("limits.calls_per_minute")

    async def soon(self, call: Queued | Inline) -> None:
        """Count in the window of all processes."""
        limit = call.limits.calls_per_minute or 0
        share = share_of(Bound.CALLS_PER_MINUTE, call.principal, call.tool)
        if not await self._streams.windows.hit(share, limit, MINUTE):
            raise refused(Code.RATE_LIMITED, RATE.format(call.tool, limit))

    @staticmethod
    def now(call: Queued) -> None:
        """Count in the same window; the refusal says when it ends."""
        limit = call.limits.calls_per_minute or 0
        share = share_of(Bound.CALLS_PER_MINUTE, call.principal, call.tool)
        if wait := count(share, limit, MINUTE):
            raise refused(Code.RATE_LIMITED, RATE.format(call.tool, limit), wait)


class RunningLimit(Check):
    """One person runs so many calls in one web process; a call that a worker runs is not among them."""

    of_queued = False

    async def soon(self, call: Inline) -> None:
        """Compare what runs now with the limit."""
        share = share_of(Bound.RUNNING_CALLS, call.principal)
        check_running(call.running, share, self._settings.max_running_calls_per_principal)

    @staticmethod
    def now(call: Queued) -> None:
        """Admit: outside of an event loop no call runs inline."""


class Backlog(Check):
    """One person has so many background calls that wait or run.

    Counted in the database only when a person has used up what the last count left, so that a call of a
    person with few of them costs nothing. Several processes may each let through what one count left.
    """

    of_inline = False

    def __init__(
        self,
        streams: Streams,
        settings: Settings,
        count_open: Callable[[Person], Awaitable[int]] | None = None,
    ) -> None:
        super().__init__(streams, settings)
        self._count = count_open or _count_open
        self._left: dict[Person, int] = {}

    async def soon(self, call: Queued) -> None:
        """Take one of the places that the last count left."""
        person = person_of(call.principal)
        left = self._left.get(person, 0)
        if left <= 0:
            try:
                found = await self._count(person)
            except DatabaseError as error:
                raise unavailable() from error
            left = self._settings.max_open_background_calls_per_principal - found
            if left <= 0:
                raise refused(Code.BACKLOG_FULL, BACKLOG, BACKLOG_SECONDS)
            if len(self._left) >= REMEMBERED:
                self._left.clear()
        self._left[person] = left - 1

    @staticmethod
    def now(call: Queued) -> None:
        """Count in the database."""
        if open_of(person_of(call.principal)) >= conf.get().max_open_background_calls_per_principal:
            raise refused(Code.BACKLOG_FULL, BACKLOG, BACKLOG_SECONDS)


class Quota(Check):
    """Redis has room, and the person has less in it than one may have. What runs at once keeps nothing."""

    of_inline = False

    async def soon(self, call: Queued) -> None:
        """Look at what this process knows of Redis, or ask it."""
        await quota.admit(self._streams, call.principal)

    @staticmethod
    def now(call: Queued) -> None:
        """Ask Redis. While it is away, the row waits for it (R4)."""
        settings = conf.get()
        if settings.redis_url:
            with suppress(StreamsUnavailable):
                quota.admit_now(settings, call.principal)


class ApprovalRequired(Check):
    """A call that needs approval can get it. How many may wait for it, ``check_waiting`` counts later."""

    limit = "needs_approval"
    concerns = attrgetter("approval_minutes")

    async def soon(self, call: Queued | Inline) -> None:
        """Refuse what nobody could approve."""
        if isinstance(call, Inline) and not call.may_wait:
            raise refused(Code.APPROVAL_IMPOSSIBLE, NO_WAITING.format(call.tool))
        self.now(call)

    @staticmethod
    def now(call: Queued) -> None:
        """Refuse what nobody could approve."""
        if call.four_eyes and call.user_id is None:
            raise refused(Code.CALLER_UNKNOWN, UNKNOWN_CALLER.format(call.tool))


# Of calls whose tool exists and whose arguments fit. The first check that objects names the reason.
ORDER: Final[tuple[type[Check], ...]] = (CallsPerMinute, RunningLimit, Backlog, Quota, ApprovalRequired)


def check_running(running: Mapping[Share, int], share: Share, most: int) -> int:
    """Return how many requests of a person run here; raises TooManyRequests when these are ``most``."""
    found = running.get(share, 0)
    if found >= most:
        raise refused(Code.TOO_MANY_RUNNING, RUNNING, 1)
    return found


def check_waiting(person: Person, most: int) -> None:
    """Raise TooManyRequests when more than ``most`` calls of a person wait for approval.

    Asked within the transaction that stored one more, since only that is exact.
    """
    if Call.objects.filter(state=State.APPROVAL_NEEDED, person=person).count() > most:
        raise refused(Code.APPROVALS_FULL, APPROVALS, 1)


def open_of(person: Person) -> int:
    """Return how many background calls of a person are not over."""
    return Call.objects.filter(state__in=OPEN, person=person).count()


async def _count_open(person: Person) -> int:
    return await aquery_soon(open_of, person)


def unavailable() -> McpError:
    """Return the error for a call that cannot be stored now."""
    return refused(Code.UNAVAILABLE, NO_DATABASE, 1)
