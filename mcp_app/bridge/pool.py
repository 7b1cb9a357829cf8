"""The processes of one command, one for each session: their number, their starts, and their end when idle."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp_app.bridge.child import CannotStart, Child
from mcp_app.bridge.conversation import Conversation
from mcp_app.bridge.error_output import ErrorOutput
from mcp_app.bridge.guarding import Guard
from mcp_app.credentials.hiding import texts_to_hide
from mcp_app.upstream_commands import UpstreamCommand

# A process that ends by itself within this time, without an answer, counts as a failed start.
QUICK_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 60.0
# A process that was started for the first request, and a session that gives way to a new one.
SPARE_SECONDS: Final = 60.0
EVICTED_SECONDS: Final = 30.0

log = logging.getLogger("mcp.upstream.bridge")


class Unavailable(Exception):
    """Raised if no process can be started now. The text is shown to callers."""


class Pool:
    """The processes of one command.

    ``_sessions`` are by session id. The shared process serves requests without a session (2026-07-28). The
    spare process refused such a request, so the next session takes it.
    """

    def __init__(self, command: UpstreamCommand, guard: Guard, secret_names: tuple[str, ...]) -> None:
        self.command, self._guard = command, guard
        found = tuple(command.secrets(secret_names))
        self._secrets, self.errors = texts_to_hide(found), ErrorOutput(found)
        self._sessions: dict[str, Conversation] = {}
        self._shared: Conversation | None = None
        self._spare: Conversation | None = None
        self._all: dict[Child, Conversation] = {}
        self._sharing = asyncio.Lock()
        self._starting = 0
        self.failures = 0
        self._next_start = 0.0
        self._last_end: dict[str, Any] | None = None

    @property
    def has_processes(self) -> bool:
        """True while a process runs."""
        return bool(self._all)

    def session(self, session_id: str) -> Conversation | None:
        """Return the process of a session, or None if the session has ended."""
        found = self._sessions.get(session_id)
        return found if found is not None and found.child.is_alive else None

    def take_spare(self) -> Conversation | None:
        """Return the spare process for a new session, or None if there is none."""
        spare, self._spare = self._spare, None
        if spare is None or not spare.child.is_alive:
            return None
        spare.has_session = True
        return spare

    async def unused(self) -> Conversation:
        """Start a process for a new session. Raise Unavailable."""
        return await self._start(has_session=True)

    def keep(self, conversation: Conversation) -> str:
        """Return the id of a new session of a process."""
        session_id = secrets.token_hex(16)
        self._sessions[session_id] = conversation
        return session_id

    def end(self, session_id: str) -> bool:
        """End a session with its process. Return False if there is none."""
        conversation = self._sessions.pop(session_id, None)
        if conversation is not None:
            self.discard(conversation, "The caller ended the session.")
        return conversation is not None

    def discard(self, conversation: Conversation, reason: str) -> None:
        """Stop a process."""
        conversation.child.stop(reason)

    async def shared(self) -> Conversation:
        """Return the process for requests without a session. Raise Unavailable."""
        async with self._sharing:
            if self._shared is None or not self._shared.child.is_alive:
                self._shared = await self._start(has_session=False)
            return self._shared

    def spare(self, conversation: Conversation) -> None:
        """Leave the shared process to the next session, because it serves no requests without a session."""
        if self._shared is not conversation:
            return
        self._shared = None
        if self._spare is None or not self._spare.child.is_alive:
            self._spare = conversation
        else:
            self.discard(conversation, "It is not needed.")

    def sweep(self, usage: Mapping[int, tuple[int, int]]) -> None:
        """Stop idle processes, and kill those above their limits."""
        now = time.monotonic()
        for child, conversation in list(self._all.items()):
            child.memory_mb, child.processes = usage.get(child.pid, (0, 0))
            if child.memory_mb > self.command.memory_mb:
                child.kill(f"It used more than {self.command.memory_mb} MiB of memory.")
            elif child.processes > self.command.max_processes:
                child.kill(f"It had more than {self.command.max_processes} processes.")
            elif not conversation.open_requests and child.is_alive:
                most = SPARE_SECONDS if conversation is self._spare else self.command.idle_seconds
                if now - conversation.used_at > most:
                    self.discard(conversation, "It was idle.")

    async def close(self) -> None:
        """Stop all processes, and wait for their end."""
        stopping = [child.stop("The bridge ended.") for child in self._all]
        if stopping:
            await asyncio.wait(stopping)

    def status(self) -> dict[str, Any]:
        """Return the state of the command for operators."""
        wait = self._next_start - time.monotonic()
        return {
            "processes": list(self._shown()),
            "failures": self.failures,
            "next_start_seconds": max(0, round(wait)) if self.failures else 0,
            "last_end": self._last_end,
            "errors": self.errors.shown(),
        }

    def _shown(self) -> Iterator[dict[str, Any]]:
        now = time.monotonic()
        for child, conversation in self._all.items():
            yield {
                "pid": child.pid,
                "seconds": round(now - child.started_at),
                "open_requests": conversation.open_requests,
                "memory_mb": child.memory_mb,
                "processes": child.processes,
                "has_session": conversation.has_session,
            }

    async def _start(self, *, has_session: bool) -> Conversation:
        wait = self._next_start - time.monotonic()
        if wait > 0:
            raise Unavailable(
                f"Its process ended at once {self.failures} times in a row. "
                f"The next start is possible in {max(1, round(wait))} s."
            )
        self._make_room()
        self._starting += 1
        try:
            child = await Child.start(self.command, self._guard, self.errors)
        except CannotStart as error:
            self._failed()
            self._last_end = {"at": time.time(), "text": f"It cannot be started. {error}"}
            raise Unavailable("Its process cannot be started.") from None
        finally:
            self._starting -= 1
        conversation = Conversation(child, self._secrets, has_session=has_session)
        self._all[child] = conversation
        child.watch(conversation.take, self._ended)
        return conversation

    def _make_room(self) -> None:
        """Stop the session that is idle longest if all places are taken. Raise Unavailable."""
        alive = [found for found in self._all.values() if found.child.is_alive]
        if len(alive) + self._starting < self.command.max_sessions:
            return
        before = time.monotonic() - EVICTED_SECONDS
        idle = [found for found in alive if not found.open_requests and found.used_at < before]
        # A process that was told to stop may still run for some seconds.
        if not idle or len(self._all) >= 2 * self.command.max_sessions:
            raise Unavailable(f"All {self.command.max_sessions} processes of its command are in use.")
        self.discard(min(idle, key=lambda found: found.used_at), "Another session needed its place.")

    def _ended(self, child: Child, reason: str) -> None:
        conversation = self._all.pop(child)
        conversation.end(reason)
        for session_id in [each for each, found in self._sessions.items() if found is conversation]:
            del self._sessions[session_id]
        self._last_end = {"at": time.time(), "text": reason}
        is_quick = time.monotonic() - child.started_at < QUICK_SECONDS
        if conversation.has_answered or not is_quick:
            self.failures = 0
        elif child.ended_itself:
            self._failed()
        if child.ended_itself:
            log.warning("The command %s: process %d: %s", self.command.name, child.pid, reason)

    def _failed(self) -> None:
        """Count a failed start. After the second one in a row, the next start has to wait."""
        self.failures += 1
        if self.failures > 1:
            self._next_start = time.monotonic() + min(2.0 ** (self.failures - 2), LONGEST_SECONDS)
