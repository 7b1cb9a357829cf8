"""Execution of application functions: async ones on the event loop, synchronous ones in a thread pool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.http import Http404

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

# Objects that the caller may not see are reported as missing (RES-06).
NOT_THERE = (ObjectDoesNotExist, PermissionDenied, Http404)

log = logging.getLogger("mcp.tool")


class Runner:
    """The executor of one process, with its threads. ``serves``: its event loop serves clients first."""

    def __init__(self, threads: int, *, serves: bool = False) -> None:
        self._threads = Threads(threads, yields=serves)

    async def close(self) -> None:
        """Accept no more work and close the threads. Threads that ignore cancellation are abandoned."""
        await self._threads.close()

    async def invoke(
        self, function: ToolFunction, arguments: dict[str, Any], call: RunningCall, context: Context
    ) -> Any:
        """Call an application function with validated arguments and return its value.

        Raise Suspended if it asked a question that the client answers with a new request, even if the
        function caught that.
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
        # Keep all running work: a tool in a thread may read a resource that runs in another thread.
        begun = call.threads
        call.threads = (*[each for each in begun if not each.done()], work) if begun else (work,)
        try:
            return await work.outcome()
        except asyncio.CancelledError:
            if call.suspended:
                # Its client returns at once, and the next run must not overlap with this one's cleanup.
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
        """Return a tool's result in the newest legacy form.

        Failures become ``isError`` (TOOL-12). All calls of a tool's code pass here or through
        ``run_at_once``, so a tool that needs approval never runs without it.
        """
        if entry.needs_approval and not approved:
            return _unapproved(entry)
        try:
            return to_result(await self.invoke(entry.function, arguments, call, context), entry)
        except BaseException as error:  # noqa: BLE001 - the boundary: a tool may raise anything
            return _stopped_or_failed(entry.name, error, call)

    async def ask_first(
        self, entry: ToolEntry, arguments: dict[str, Any], call: RunningCall, context: Context
    ) -> dict[str, Any]:
        """Run a tool's ``asks_first``, before its call becomes a task.

        Return {} or the result of its failure.
        """
        try:
            if entry.asks_first is not None:
                await self.invoke(entry.asks_first, arguments, call, context)
        except BaseException as error:  # noqa: BLE001 - as above
            return _stopped_or_failed(entry.name, error, call)
        return {}

    def run_at_once(self, entry: ToolEntry, arguments: dict[str, Any], version: str) -> dict[str, Any]:
        """Run a tool that never waits and takes no context, synchronously, and return its result.

        Call it in its own ``contextvars`` context, as a task has. Otherwise changes by the tool, such as an
        activated language, would persist on the connection.
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
            raise RuntimeError("A tool that never waits did wait.")
        except BaseException as error:  # noqa: BLE001 - as above
            let_pass(error, None)
            return _failed(entry.name, error, version)

    async def run_prompt(
        self, function: ToolFunction, arguments: dict[str, Any], call: RunningCall, context: Context
    ) -> Any:
        """Return a prompt function's value. Expected failures raise -32602 (PROMPT-03)."""
        return await self.run_method(function, arguments, call, context)

    async def run_method(
        self, function: ToolFunction, arguments: dict[str, Any], call: RunningCall, context: Context
    ) -> Any:
        """Return the value of an extension's method. Missing objects raise -32602."""
        try:
            return await self._run_definition(function, arguments, call, context)
        except NOT_THERE as error:
            raise InvalidParams(str(error) or "Not found.") from None

    async def read_resource(
        self, function: ToolFunction, uri: str, variables: dict[str, Any], call: RunningCall, context: Context
    ) -> Any:
        """Return a resource function's value. A missing object raises ResourceNotFound (RES-03)."""
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
    """Return the result of a tool's failure. Raise CancelledError if its call was stopped."""
    if isinstance(error, Cancelled) and call.stopped:
        raise asyncio.CancelledError from None
    if isinstance(error, asyncio.CancelledError) and call.interrupted:
        raise error
    let_pass(error, call.task)
    return _failed(name, error, call.session.version)


def _unapproved(entry: ToolEntry) -> dict[str, Any]:
    log.warning("%r requires approval and was not run", entry.name)
    return error_result(f"{entry.name} needs approval now, which this call does not have: call it again.")


def _in_thread(run: Callable[..., Any], function: Callable[..., Any], keywords: dict[str, Any]) -> Any:
    with contained():
        return run(function, keywords)


def _settled(function: Callable[..., Any], keywords: dict[str, Any]) -> Any:
    return settle(function(**keywords))


def _failed(name: str, error: BaseException, version: str) -> dict[str, Any]:
    """Return the result for a tool's exception. Raise McpError for errors of the request itself."""
    try:
        with contained():  # The text of an exception is application code, too.
            return _reported(name, error, version)
    except McpError:
        raise
    except Exception:  # noqa: BLE001 - as above
        return error_result(_unexpected(name))


def _reported(name: str, error: BaseException, version: str) -> dict[str, Any]:
    if isinstance(error, UrlElicitationRequired):
        if version == V2025_11_25:
            raise error
        # ELI-08, ELI-09: other revisions lack this error, so the result contains its message for the model.
        return error_result(error.message)
    if isinstance(error, CannotAsk) and is_modern(version):
        raise _missing(error)
    if isinstance(error, MissingCapability):
        raise error
    if isinstance(error, PeerError):
        # A question that fails inside the tool is the tool's failure, not the request's (TOOL-12).
        return error_result(_words(error))
    if isinstance(error, McpError):
        raise error
    if isinstance(error, Cancelled):
        return error_result("The tool stopped itself.")
    if isinstance(error, ToolError):
        return error_result(str(error) or "The tool failed.")
    return error_result(_failure(name, error))


def _missing(error: CannotAsk) -> MissingCapability:
    """Return the error for missing capabilities, which the client may declare and retry (CAP-03)."""
    return MissingCapability(str(error), required=required(error.needed))


def _words(error: PeerError) -> str:
    uri = (error.data or {}).get("uri")
    return error.message if uri is None else f"{error.message}: {uri}"


def _failure(name: str, error: BaseException) -> str:
    """Return the error text for the model: the message of an expected failure, else an incident id (S25)."""
    expected = expected_words(error)
    return _unexpected(name) if expected is None else expected


def _unexpected(name: str) -> str:
    return f"The tool failed unexpectedly (incident {incident(log, f'tool {name!r}')})."
