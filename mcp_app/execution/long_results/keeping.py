"""The long results of one process: cut, stored, and read by their callers."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from typing import Any, Final

from django.db import DatabaseError

from mcp_app import conf
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.database.queries import aquery
from mcp_app.execution.long_results import storage
from mcp_app.execution.long_results.bounds import bound_of
from mcp_app.execution.long_results.shortening import SCHEME, Shortened, page_contents, shorten
from mcp_app.execution.long_results.storage import Caller
from mcp_app.metrics import tally
from mcp_app.protocol.errors import ResourceNotFound, Unavailable

# Seconds between attempts to read a result that another process may be about to store.
PAUSES: Final = (0.05, 0.2)
# Queries end on their own after this time.
CLOSING_SECONDS: Final = 5.0
_URI: Final = re.compile(rf"{SCHEME}([0-9a-f]{{32}})(?:/(\d{{1,6}}))?/?")

log = logging.getLogger("mcp.call")


class LongResults:
    """The long results of one process."""

    def __init__(self) -> None:
        # Results that are being stored, by key.
        self._storing: dict[str, asyncio.Task[None]] = {}

    async def cut(
        self, result: dict[str, Any], entry: ToolEntry, principal: Principal, path: str
    ) -> dict[str, Any]:
        """Return a result cut to its tool's bound, and store the whole."""
        caller, key = Caller(principal.key, principal.user_id, path), secrets.token_hex(16)
        try:
            shortened, stored = await aquery(_cut_and_store, result, entry, caller, key)
        except DatabaseError:  # No thread or connection is free.
            shortened, stored = _shortened(result, entry), False
        return _ended(shortened, key, stored=stored)

    def cut_now(
        self, result: dict[str, Any], entry: ToolEntry, principal: Principal, path: str
    ) -> dict[str, Any]:
        """Return a result cut to its tool's bound, and store the whole in a task.

        This is for calls that never wait. A read in this process waits for the task.
        """
        caller, key = Caller(principal.key, principal.user_id, path), secrets.token_hex(16)
        shortened, stored = _shortened(result, entry), _stores()
        if stored:
            storing = _store_later(shortened, entry.name, caller, key)
            task = self._storing[key] = asyncio.get_running_loop().create_task(storing)
            task.add_done_callback(lambda _: self._storing.pop(key, None))
        return _ended(shortened, key, stored=stored)

    async def contents(self, uri: str, principal: Principal, path: str) -> dict[str, Any]:
        """Return the result of ``resources/read`` for a page of a result.

        Raise ResourceNotFound for a result that is unknown, expired or of another caller.
        """
        found = _URI.fullmatch(uri)
        number = int(found[2] or 1) if found else 0
        if found is None or not number:
            raise _missing(uri)
        key, caller = found[1], Caller(principal.key, principal.user_id, path)
        if key in self._storing:
            await asyncio.wait((self._storing[key],))
        stored = await _read(key, caller, number)
        for pause in PAUSES:
            if stored is not None:
                break
            await asyncio.sleep(pause)
            stored = await _read(key, caller, number)
        if stored is None:
            raise _missing(uri)
        following = f"{SCHEME}{key}/{number + 1}" if number < stored.page_count else ""
        return {"contents": page_contents(uri, stored.page, number, stored.page_count, following)}

    async def close(self) -> None:
        """Wait until all results are stored."""
        if self._storing:
            await asyncio.wait(self._storing.values(), timeout=CLOSING_SECONDS)


def is_address(uri: str) -> bool:
    """Return True for the address of a stored result."""
    return uri.startswith(SCHEME)


def _missing(uri: str) -> ResourceNotFound:
    return ResourceNotFound("Resource not found", data={"uri": uri})


def _stores() -> bool:
    return conf.get().result_seconds > 0


def _shortened(result: dict[str, Any], entry: ToolEntry) -> Shortened:
    bound = bound_of(entry, conf.get(), is_error="isError" in result)
    assert bound is not None  # Only results above a bound are cut.
    return shorten(result, bound)


def _cut_and_store(
    result: dict[str, Any], entry: ToolEntry, caller: Caller, key: str
) -> tuple[Shortened, bool]:
    shortened = _shortened(result, entry)
    return shortened, _stores() and _store(shortened, entry.name, caller, key)


def _store(shortened: Shortened, tool: str, caller: Caller, key: str) -> bool:
    """Store the whole of a result. Return False if the database failed."""
    settings = conf.get()
    quota = settings.max_result_storage_bytes_per_principal
    try:
        storage.store(key, caller, tool, shortened.pages, settings.result_seconds, quota)
    except DatabaseError as error:
        log.warning("A long result of tool %r could not be stored: %s", tool, error)
        return False
    return True


async def _store_later(shortened: Shortened, tool: str, caller: Caller, key: str) -> None:
    try:
        await aquery(_store, shortened, tool, caller, key)
    except DatabaseError as error:  # No thread or connection is free.
        log.warning("A long result of tool %r could not be stored: %s", tool, error)


async def _read(key: str, caller: Caller, number: int) -> storage.StoredPage | None:
    try:
        return await aquery(storage.read, key, caller, number)
    except DatabaseError:
        raise Unavailable("The database is unavailable: try again later.") from None


def _ended(shortened: Shortened, key: str, *, stored: bool) -> dict[str, Any]:
    tally.note("long_result", "stored" if stored else "not_stored")
    if stored:
        return shortened.linked(f"{SCHEME}{key}", conf.get().result_seconds)
    return shortened.unlinked()
