"""Requests that continue while users answer their questions.

A request is a task. While a call of this server waits for its client in another request, the task waits in
the process that sent it. Redis carries the answers there from any other process, and the outcome back.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import orjson

from mcp_app.observability.correlation import background_call
from mcp_app.protocol.client.answers import Answered, InputRequired
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.streams.blocking import shared_values
from mcp_app.upstreams.exchanges import QUESTION_SECONDS, Asking, OnQuestion

Answers = Mapping[str, Mapping[str, Any]]
MAX_PARKED: Final = 100
MAX_PARKED_OF_CALLER: Final = 10
# A process that shares nothing for this time has ended.
_ALIVE_SECONDS: Final = 3.0
_OUTCOME_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.2
_LOST: Final = "no longer waits for the answer, because its connection was closed. Call again."

_parked: dict[str, tuple[OpenCall, asyncio.Task[None]]] = {}


@dataclass(frozen=True, slots=True)
class Questions:
    """The open questions of a legacy server by name, and the id of the call that waits for the answers."""

    requests: dict[str, dict[str, Any]]
    call: str


Step = Answered | InputRequired | Questions


class OpenCall:
    """A running request. ``id`` is known to this installation only."""

    def __init__(
        self,
        send: Callable[[OnQuestion], Coroutine[Any, Any, Answered | InputRequired]],
        methods: frozenset[str],
        caller: str,
    ) -> None:
        """Start the request in a task. ``methods`` are the questions that the caller can answer.

        ``caller`` is the person who called. Several persons may share a session.
        """
        self.id, self.caller = secrets.token_hex(16), caller
        self.background = background_call()
        self._methods, self._numbers = methods, count(1)
        self._open: dict[str, Asking] = {}
        self._news = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(send(self._take))
        self._task.add_done_callback(self._ended)

    @property
    def is_here(self) -> bool:
        """True on the event loop of the request."""
        return self._task.get_loop() is asyncio.get_running_loop()

    def cancel(self) -> None:
        """Cancel the request at the server."""
        self._task.cancel()

    def lapsed(self, name: str) -> asyncio.Event:
        """Return the event that is set when the server no longer waits for the answer to a question."""
        found = self._open.get(name)
        if found is not None:
            return found.lapsed
        lapsed = asyncio.Event()
        lapsed.set()
        return lapsed

    async def step(self, answers: Answers | None = None) -> Step:
        """Send the answers to open questions. Return the result or the next questions. Raise UpstreamFault.

        Cancelling the task that waits cancels the request.
        """
        has_step = False
        try:
            for name, answer in (answers or {}).items():
                if (asking := self._open.pop(name, None)) is not None:
                    await asking.answer(answer)
            while not self._open and not self._task.done():
                self._news.clear()
                await self._news.wait()
            has_step = True
        finally:
            if not has_step:
                self.cancel()
        if self._task.done():
            return self._task.result()
        asked = {name: {"method": each.method, "params": each.params} for name, each in self._open.items()}
        return Questions(asked, self.id)

    def _take(self, asking: Asking) -> bool:
        if asking.method not in self._methods:
            return False
        self._open[str(next(self._numbers))] = asking
        self._news.set()
        return True

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._open.clear()
        self._news.set()
        if not task.cancelled():
            task.exception()  # It is raised in ``step``, unless nothing waits for it any more.


async def park(call: OpenCall) -> None:
    """Let a call wait for its answers while no code of this server runs for it."""
    of_caller = sum(each.caller == call.caller for each, _ in _parked.values())
    if len(_parked) >= MAX_PARKED or of_caller >= MAX_PARKED_OF_CALLER:
        call.cancel()
        return
    # The answer may reach another process before this function returns.
    await asyncio.to_thread(_show_alive, call.id)
    _parked[call.id] = call, asyncio.get_running_loop().create_task(_served(call))


async def answered(number: str, answers: Answers, seconds: float) -> tuple[Step, OpenCall | None]:
    """Continue a parked call with the answers. Return its next step, and the call if it is in this process.

    Raise UpstreamFault. ``seconds`` limits the wait for another process.
    """
    found = _parked.get(number)
    if found is None or not found[0].is_here:
        return await _remote(number, answers, seconds), None
    call, serving = found
    del _parked[number]
    serving.cancel()
    return await call.step(answers), call


async def _served(call: OpenCall) -> None:
    """Pass the answers from other processes to a parked call, and its outcome back."""
    until = time.monotonic() + QUESTION_SECONDS
    alive = asyncio.get_running_loop().create_task(_shown_alive(call.id))
    try:
        while time.monotonic() < until:
            if await asyncio.to_thread(_is_abandoned, call.background):
                return
            found = await asyncio.to_thread(shared_values.get, _name("answers", call.id))
            if found is not None:
                await asyncio.to_thread(shared_values.drop, _name("answers", call.id))
                is_open = await _proceed(call, orjson.loads(found))
                if not is_open:
                    return
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        alive.cancel()
        # A call that another request has taken over goes on.
        if _parked.pop(call.id, None) is not None:
            call.cancel()


def abandon(background: str) -> None:
    """Let the process that holds the request of a background call cancel it at the server."""
    shared_values.put(_name("abandoned", background), b"1", _OUTCOME_SECONDS)


def _is_abandoned(background: str) -> bool:
    return bool(background) and shared_values.get(_name("abandoned", background)) is not None


async def _shown_alive(number: str) -> None:
    while True:
        await asyncio.sleep(_ALIVE_SECONDS / 3)
        await asyncio.to_thread(_show_alive, number)


def _show_alive(number: str) -> None:
    shared_values.put(_name("alive", number), b"1", _ALIVE_SECONDS)


async def _proceed(call: OpenCall, answers: Answers) -> bool:
    """Share the next step of a parked call. Return True while it has further questions."""
    step: Step | None = None
    try:
        step = await call.step(answers)
        outcome = _stored(step)
    except UpstreamFault as fault:
        outcome = {"kind": fault.kind.value, "text": str(fault), "code": fault.code}
    value = orjson.dumps(outcome)
    await asyncio.to_thread(shared_values.put, _name("outcome", call.id), value, _OUTCOME_SECONDS)
    return isinstance(step, Questions)


async def _remote(number: str, answers: Answers, seconds: float) -> Step:
    until = time.monotonic() + seconds
    if await asyncio.to_thread(shared_values.get, _name("alive", number)) is None:
        raise UpstreamFault(Kind.BROKEN_OFF, _LOST)
    value = orjson.dumps(dict(answers))
    await asyncio.to_thread(shared_values.drop, _name("outcome", number))
    await asyncio.to_thread(shared_values.put, _name("answers", number), value, _OUTCOME_SECONDS)
    while time.monotonic() < until:
        found = await asyncio.to_thread(shared_values.get, _name("outcome", number))
        if found is not None:
            await asyncio.to_thread(shared_values.drop, _name("outcome", number))
            return _read(number, orjson.loads(found))
        if await asyncio.to_thread(shared_values.get, _name("alive", number)) is None:
            raise UpstreamFault(Kind.BROKEN_OFF, _LOST)
        await asyncio.sleep(_POLL_SECONDS)
    raise UpstreamFault(Kind.TIMEOUT, "did not answer in time.")


def _stored(step: Step) -> dict[str, Any]:
    if isinstance(step, Questions):
        return {"requests": step.requests}
    if isinstance(step, InputRequired):
        raise UpstreamFault(Kind.INVALID, "did not answer with a result.")
    return {"result": step.result}


def _read(number: str, stored: dict[str, Any]) -> Step:
    if "kind" in stored:
        raise UpstreamFault(Kind(stored["kind"]), stored["text"], code=stored["code"])
    return Answered(stored["result"]) if "result" in stored else Questions(stored["requests"], number)


def _name(part: str, number: str) -> str:
    return f"upstream-call/{number}/{part}"
