"""Execution of application functions: async functions on the event loop, synchronous functions in threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.http import Http404

from mcp_app import conf
from mcp_app.catalogue.definitions.content import CannotAsk, ToolError
from mcp_app.catalogue.definitions.definition import ToolFunction
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.execution.calls.call import INPUT, UNWILLING_SECONDS, RunningCall
from mcp_app.execution.calls.context import Context
from mcp_app.execution.calls.exceptions import Cancelled, Suspended
from mcp_app.execution.calls.expected_errors import expected_words
from mcp_app.execution.calls.json_values import settle
from mcp_app.execution.calls.results import error_result, incident, to_result
from mcp_app.execution.calls.threads import Threads
from mcp_app.execution.calls.transactions import in_transaction
from mcp_app.execution.long_results.bounds import marked, size_of
from mcp_app.execution.long_results.keeping import LongResults
from mcp_app.foreign_code import contained, let_pass
from mcp_app.protocol.capabilities import required
from mcp_app.protocol.errors import (
    InvalidParams,
    McpError,
    MissingCapability,
    PeerError,
    ResourceNotFound,
    UrlElicitationRequired,
)
from mcp_app.protocol.versions import V2025_11_25, is_modern

# Objects that the caller may not see are reported as if they did not exist (RES-06).
NOT_THERE = (ObjectDoesNotExist, PermissionDenied, Http404)

log = logging.getLogger("mcp.tool")


class Runner:
    """The executor of one process and its threads. If it ``serves``, threads yield to the event loop."""

    def __init__(self, threads: int, *, serves: bool = False) -> None:
        self._threads = Threads(threads, yields=serves)
        self.long_results = LongResults()

    async def close(self) -> None:
        """Accept no more work and close the threads. Threads that ignore their cancellation are abandoned."""
        await self.long_results.close()
        await self._threads.close()

    async def invoke(
        self, function: ToolFunction, arguments: dict[str, Any], call: RunningCall, context: Context
    ) -> Any:
        """Call an application function with validated arguments and return its value.

        If the function asked a question that the client answers with a new request, raise Suspended. It is
        raised even if the function caught it.
        """
        try:
            keywords = function.bind(arguments)
            if function.context_name is not None:
                keywords[function.context_name] = context
            if function.is_async:
                return await function.call(**keywords)
            return await self._invoke_in_thread(function, keywords, call)
        finally:
            if call.stopped_by == INPUT:
                raise Suspended

    async def _invoke_in_thread(
        self, function: ToolFunction, keywords: dict[str, Any], call: RunningCall
    ) -> Any:
        run = in_transaction if function.is_atomic else _settled
        work = self._threads.start(_in_thread, run, function.call, keywords)
        # Remember all running work, because a tool in a thread may read a resource whose code runs in
        # another thread.
        started = call.threads
        call.threads = (*[each for each in started if not each.done()], work) if started else (work,)
        try:
            return await work.outcome()
        except asyncio.CancelledError:
            if call.suspended:
                # The client sends its next request at once. This code must clean up before the next run
                # starts.
                await work.end(UNWILLING_SECONDS)
            raise

    async def run_tool(
        self,
        entry: ToolEntry,
        arguments: dict[str, Any],
        call: RunningCall,
        context: Context,
        *,
        approved: bool = False,
    ) -> dict[str, Any]:
        """Run a tool and return its result in the newest legacy form.

        Failures become results with ``isError`` (TOOL-12). Every call of a tool passes through here or
        ``run_inline``, so a tool that needs approval never runs without it.
        """
        if entry.needs_approval and not approved:
            return _unapproved(entry)
        try:
            result = to_result(await self.invoke(entry.function, arguments, call, context), entry)
        except BaseException as error:  # noqa: BLE001 - the boundary: a tool may raise anything
            result = _bounded(_stopped_or_failed(entry.name, error, call), entry)
        if type(result) is dict:
            return result
        path = call.catalogue.server.path
        if call.task is None:  # The call runs in its first step, which must not wait.
            return self.long_results.cut_now(result, entry, call.principal, path)
        return await self.long_results.cut(result, entry, call.principal, path)

    async def ask_first(
        self, entry: ToolEntry, arguments: dict[str, Any], call: RunningCall, context: Context
    ) -> dict[str, Any]:
        """Run a tool's ``asks_first`` function before the call becomes a task.

        Return {}, or the error result if the function failed.
        """
        try:
            if entry.asks_first is not None:
                await self.invoke(entry.asks_first, arguments, call, context)
        except BaseException as error:  # noqa: BLE001 - as above
            return _stopped_or_failed(entry.name, error, call)
        return {}

    def run_inline(self, entry: ToolEntry, arguments: dict[str, Any], version: str) -> dict[str, Any]:
        """Run a tool that never waits and takes no context, and return its result.

        The caller must cut a ``LongResult``.

        Call this in its own ``contextvars`` context, as a task has. Otherwise a change made by the tool,
        such as the active language, would stay in effect for later requests on the connection.
        """
        if entry.needs_approval:
            return _unapproved(entry)
        try:
            step = entry.function.call(**entry.function.bind(arguments))
            try:
                step.send(None)
            except StopIteration as done:
                return to_result(done.value, entry)
            step.close()
            raise RuntimeError("A tool declared as non-blocking waited.")
        except BaseException as error:  # noqa: BLE001 - as above
            let_pass(error, None)
            return _bounded(_failed(entry.name, error, version), entry)

    async def run_prompt(
        self, function: ToolFunction, arguments: dict[str, Any], call: RunningCall, context: Context
    ) -> Any:
        """Return the value of a prompt's function. Raise -32602 for an expected failure (PROMPT-03)."""
        return await self.run_method(function, arguments, call, context)

    async def run_method(
        self, function: ToolFunction, arguments: dict[str, Any], call: RunningCall, context: Context
    ) -> Any:
        """Return the value of an extension's method. Raise -32602 for a missing object."""
        try:
            return await self._run_definition(function, arguments, call, context)
        except NOT_THERE as error:
            raise InvalidParams(str(error) or "Not found.") from None

    async def read_resource(
        self, function: ToolFunction, uri: str, variables: dict[str, Any], call: RunningCall, context: Context
    ) -> Any:
        """Return the value of a resource's function. Raise ResourceNotFound for a missing object (RES-03)."""
        try:
            return await self._run_definition(function, variables, call, context)
        except (*NOT_THERE, FileNotFoundError):
            raise ResourceNotFound("Resource not found", data={"uri": uri}) from None

    async def _run_definition(
        self, function: ToolFunction, arguments: dict[str, Any], call: RunningCall, context: Context
    ) -> Any:
        try:
            with contained():
                return await self.invoke(function, arguments, call, context)
        except Cancelled:
            raise asyncio.CancelledError from None
        except CannotAsk as error:
            if is_modern(call.session.version):
                raise _missing(error) from None
            raise InvalidParams(str(error)) from None
        except ToolError as error:
            raise InvalidParams(str(error) or "The request was refused.") from None
        except Exception as error:
            words = expected_words(error)
            if words is None or isinstance(error, NOT_THERE):
                raise
            raise InvalidParams(words) from None


def _stopped_or_failed(name: str, error: BaseException, call: RunningCall) -> dict[str, Any]:
    """Return the result for a tool that failed. Raise CancelledError if its call was stopped."""
    if isinstance(error, Cancelled) and call.stopped:
        raise asyncio.CancelledError from None
    if isinstance(error, asyncio.CancelledError) and call.interrupted:
        raise error
    let_pass(error, call.task)
    return _failed(name, error, call.session.version)


def _bounded(result: dict[str, Any], entry: ToolEntry) -> dict[str, Any]:
    return marked(result, entry, conf.get(), size_of(result["content"]))


def _unapproved(entry: ToolEntry) -> dict[str, Any]:
    log.warning("%r requires approval and was not run", entry.name)
    return error_result(f"{entry.name} needs approval now, which this call does not have: call it again.")


def _in_thread(run: Callable[..., Any], function: Callable[..., Any], keywords: dict[str, Any]) -> Any:
    with contained():
        return run(function, keywords)


def _settled(function: Callable[..., Any], keywords: dict[str, Any]) -> Any:
    return settle(function(**keywords))


def _failed(name: str, error: BaseException, version: str) -> dict[str, Any]:
    """Return the result for a tool's exception. Raise McpError if the request itself is at fault."""
    try:
        with contained():  # Application code also creates the exception's text.
            return _reported(name, error, version)
    except McpError:
        raise
    except Exception:  # noqa: BLE001 - as above
        return error_result(_unexpected(name))


def _reported(name: str, error: BaseException, version: str) -> dict[str, Any]:
    if isinstance(error, UrlElicitationRequired):
        if version == V2025_11_25:
            raise error
        # ELI-08, ELI-09: other revisions do not have this error, so the model gets its message in a result.
        return error_result(error.message)
    if isinstance(error, CannotAsk) and is_modern(version):
        raise _missing(error)
    if isinstance(error, MissingCapability):
        raise error
    if isinstance(error, PeerError):
        # If a question fails inside a tool, the tool is at fault and not the request (TOOL-12).
        return error_result(_words(error))
    if isinstance(error, McpError):
        raise error
    if isinstance(error, Cancelled):
        return error_result("The tool stopped itself.")
    if isinstance(error, ToolError):
        return error_result(str(error) or "The tool failed.")
    return error_result(_failure(name, error))


def _missing(error: CannotAsk) -> MissingCapability:
    """Return the error for missing capabilities. The client may declare them and try again (CAP-03)."""
    return MissingCapability(str(error), required=required(error.needed))


def _words(error: PeerError) -> str:
    uri = (error.data or {}).get("uri")
    return error.message if uri is None else f"{error.message}: {uri}"


def _failure(name: str, error: BaseException) -> str:
    """Return a failure's text for the model: an expected failure's message, else an incident id (S25)."""
    expected = expected_words(error)
    return _unexpected(name) if expected is None else expected


def _unexpected(name: str) -> str:
    return f"The tool failed unexpectedly (incident {incident(log, f'tool {name!r}')})."
