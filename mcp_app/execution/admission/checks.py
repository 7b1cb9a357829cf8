"""The checks of the gate. Each has an async version (``soon``) and one for code in threads (``now``)."""

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
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.conf import Settings
from mcp_app.database.queries import aquery_soon
from mcp_app.limits import blocking
from mcp_app.limits.limiter import Limiter, Ticket, ticket_for
from mcp_app.limits.rules import OF_TOOLS
from mcp_app.models import Call
from mcp_app.protocol.call_state import OPEN, State
from mcp_app.protocol.errors import McpError
from mcp_app.protocol.principal_key import Bound, Person, Share, person_of, share_of
from mcp_app.protocol.refusals import Code, refused
from mcp_app.sessions import quota
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams

BACKLOG_SECONDS: Final = 5
# Maximum number of principals for which one process caches the count of unfinished calls.
REMEMBERED = 10_000
RUNNING = "Too many running calls: wait for one to end, or cancel one."
BACKLOG = "Too many background calls wait or run: wait for some to end, or cancel some."
APPROVALS = "Too many calls wait for approval: wait for a decision, or cancel one."
NO_DATABASE = "The server cannot store the call now. Try again in a moment."
NO_WAITING = (
    "{} needs an administrator's approval, and this call cannot wait for it: "
    "send it by itself, not in a batch, to a server with a worker."
)
UNKNOWN_CALLER = (
    "{} has to be approved by somebody else than asks: call it with an API key, which says who asks."
)


class Queued(Protocol):
    """A call that a worker will run. ``approval_minutes`` is None if the call needs no approval."""

    @property
    def principal(self) -> str: ...

    @property
    def user_id(self) -> int | None: ...

    @property
    def tool(self) -> str: ...

    @property
    def approval_minutes(self) -> int | None: ...

    @property
    def four_eyes(self) -> bool: ...

    @property
    def ticket(self) -> Ticket | None: ...


@dataclass(frozen=True, slots=True)
class Inline:
    """A call that runs in this process.

    ``running`` is the number of calls that each principal runs in this process. A call with ``may_wait``
    can still become a background call, after its client has answered the first questions. ``ticket`` is None
    if no rule limits the call.
    """

    principal: str
    user_id: int | None
    tool: str
    approval_minutes: int | None
    four_eyes: bool
    running: Mapping[Share, int]
    may_wait: bool = False
    ticket: Ticket | None = None

    @classmethod
    def of(
        cls,
        entry: ToolEntry,
        principal: Principal,
        running: Mapping[Share, int],
        *,
        path: str,
        may_wait: bool = False,
        seconds: float = 0.0,
        counted: bool = False,
    ) -> Inline:
        """Return the inline call of a tool by a principal. It ends after ``seconds`` at the latest.

        ``counted`` is True if ``CallGate.count`` has counted the call.
        """
        minutes = entry.approval_minutes if entry.needs_approval else None
        ticket = None
        if not (counted and may_wait):
            ticket = ticket_for(
                principal.key, entry, path, seconds=seconds, concurrent=not may_wait, counted=counted
            )
        caller = principal.key, principal.user_id
        return cls(*caller, entry.name, minutes, entry.four_eyes, running, may_wait, ticket)


class Check(ABC):
    """A check in a web process.

    ``concerns`` returns a false value for calls that the check always admits. ``limits`` are the names of
    the fields of ``ToolLimits`` that enable the check for inline calls.
    """

    limits: ClassVar[tuple[str, ...]] = ()
    of_queued: ClassVar = True
    of_inline: ClassVar = True
    concerns: ClassVar[attrgetter[Any]] = attrgetter("principal")

    def __init__(self, streams: Streams, settings: Settings) -> None:
        self._streams, self._settings = streams, settings

    @abstractmethod
    async def soon(self, call: Any) -> None:
        """Raise McpError if the call may not start."""

    @classmethod
    @abstractmethod
    def now(cls, call: Any) -> None:
        """Raise McpError if the call may not start. This version is for code without an event loop."""


class RunningLimit(Check):
    """A limit on the calls that one principal runs in one web process. Calls run by workers do not count."""

    of_queued = False

    async def soon(self, call: Inline) -> None:
        """Raise McpError if the principal already runs as many calls as allowed."""
        share = share_of(Bound.RUNNING_CALLS, call.principal)
        check_running(call.running, share, self._settings.max_running_calls_per_principal)

    @classmethod
    def now(cls, call: Queued) -> None:
        """Admit every call: calls run inline only on an event loop."""


class Backlog(Check):
    """A limit on one person's waiting and running background calls.

    Each count of the open calls yields a number of calls that may still be admitted. The database is
    queried again only when that number is used up, so most calls cost no query. Because each process counts
    separately, several processes together may exceed the limit.
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
        """Admit the call within the number found by the last count. Query the database if it is used up."""
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

    @classmethod
    def now(cls, call: Queued) -> None:
        """Count the person's open calls in the database."""
        if open_of(person_of(call.principal)) >= conf.get().max_open_background_calls_per_principal:
            raise refused(Code.BACKLOG_FULL, BACKLOG, BACKLOG_SECONDS)


class Quota(Check):
    """A check that Redis has room and that the person is below the storage quota.

    Inline calls store nothing.
    """

    of_inline = False

    async def soon(self, call: Queued) -> None:
        """Check the quota with the usage cached by this process, or query Redis."""
        await quota.admit(self._streams, call.principal)

    @classmethod
    def now(cls, call: Queued) -> None:
        """Check the quota in Redis.

        Admit the call while Redis is down: its row then waits in the database (R4).
        """
        settings = conf.get()
        if settings.redis_url:
            with suppress(StreamsUnavailable):
                quota.admit_now(settings, call.principal)


class ApprovalRequired(Check):
    """A check that a call that needs approval can get it.

    ``check_waiting`` later limits the number of such calls.
    """

    limits = ("needs_approval",)
    concerns = attrgetter("approval_minutes")

    async def soon(self, call: Queued | Inline) -> None:
        """Refuse calls that no operator could approve."""
        if isinstance(call, Inline) and not call.may_wait:
            raise refused(Code.APPROVAL_IMPOSSIBLE, NO_WAITING.format(call.tool))
        self.now(call)

    @classmethod
    def now(cls, call: Queued) -> None:
        """Refuse calls that no operator could approve."""
        if call.four_eyes and call.user_id is None:
            raise refused(Code.CALLER_UNKNOWN, UNKNOWN_CALLER.format(call.tool))


class LimitRules(Check):
    """The limits of administrators and of tools. They count last, so that they count no refused call."""

    limits = tuple(OF_TOOLS)
    concerns = attrgetter("ticket")

    def __init__(self, streams: Streams, settings: Settings) -> None:
        super().__init__(streams, settings)
        self.limiter = Limiter(streams, settings)

    async def soon(self, call: Queued | Inline) -> None:
        """Count the call. Raise McpError if a limit is reached."""
        if call.ticket is not None:
            await self.limiter.admit(call.ticket)

    @classmethod
    def now(cls, call: Queued) -> None:
        """Count the call. Raise McpError if a limit is reached."""
        if call.ticket is not None:
            blocking.admit(call.ticket)


# The order of the checks once the tool exists and the arguments are valid. The first check that fails
# determines the error.
ORDER: Final[tuple[type[Check], ...]] = (
    RunningLimit, Backlog, Quota, ApprovalRequired, LimitRules,
)  # fmt: skip


def check_running(running: Mapping[Share, int], share: Share, most: int) -> int:
    """Return how many requests a person runs in this process. Raise TooManyRequests if there are ``most``."""
    found = running.get(share, 0)
    if found >= most:
        raise refused(Code.TOO_MANY_RUNNING, RUNNING, 1)
    return found


def check_waiting(person: Person, most: int) -> None:
    """Raise TooManyRequests if more than ``most`` calls of a person wait for approval.

    Call this in the transaction that stored the new call, because the count is exact only there.
    """
    if Call.objects.filter(state=State.APPROVAL_NEEDED, person=person).count() > most:
        raise refused(Code.APPROVALS_FULL, APPROVALS, 1)


def open_of(person: Person) -> int:
    """Return the number of a person's unfinished background calls."""
    return Call.objects.filter(state__in=OPEN, person=person).count()


async def _count_open(person: Person) -> int:
    return await aquery_soon(open_of, person)


def unavailable() -> McpError:
    """Return the error for a call that cannot be stored because the database is unavailable."""
    return refused(Code.UNAVAILABLE, NO_DATABASE, 1)
