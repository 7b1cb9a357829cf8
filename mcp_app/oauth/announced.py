"""Metadata members that depend on the network or the database. Background threads compute and cache them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from django.db import Error as DatabaseFault
from django.db import connections

from mcp_app import conf
from mcp_app.egress import EgressError
from mcp_app.egress.client import fetch
from mcp_app.oauth import documents
from mcp_app.oauth.documents import Fetch
from mcp_app.oauth.machines.assertions import METHOD
from mcp_app.oauth.models import Client

# Metadata documents of well-known clients. If the server announces support for client documents, such a
# client uses its document and never falls back to registration.
PUBLISHED: Final = (
    "https://claude.ai/oauth/claude-code-client-metadata",
    "https://chatgpt.com/oauth/codex/client.json",
    "https://vscode.dev/oauth/client-metadata.json",
)
# Any response, even a 404, proves that the host is reachable.
PROBE: Final = replace(
    documents.POLICY,
    content_types=None,
    max_redirects=3,
    max_raw_bytes=256 * 1024,
    max_bytes=256 * 1024,
    seconds=3.0,
)
WAIT_SECONDS: Final = 4.0

log = logging.getLogger("mcp.auth")


class Fact:
    """A yes-or-no fact about the network or the database, cached for a while.

    ``assumed`` is the value until the first result. ``yes_seconds`` and ``no_seconds`` limit how long a
    result stays fresh.
    """

    def __init__(
        self, find: Callable[[], bool], *, assumed: bool, yes_seconds: float, no_seconds: float
    ) -> None:
        self._find, self._assumed = find, assumed
        self._fresh = {True: yes_seconds, False: no_seconds}
        self._lock = threading.Lock()
        self._answer: bool | None = None
        self._until = 0.0
        self._finding: threading.Thread | None = None

    def __call__(self) -> bool:
        """Return the last answer and renew an expired one in the background. Only the first answer blocks."""
        with self._lock:
            if time.monotonic() >= self._until and (self._finding is None or not self._finding.is_alive()):
                self._finding = threading.Thread(target=self._renew, name="mcp-oauth-fact", daemon=True)
                self._finding.start()
        if self._answer is None and self._finding is not None:
            self._finding.join(WAIT_SECONDS)
        if self._answer is None:
            self._answer = self._assumed
        return self._answer

    def forget(self) -> None:
        """Discard the cached answer."""
        self._answer, self._until, self._finding = None, 0.0, None

    def _renew(self) -> None:
        try:
            answer = self._find()
        except (
            DatabaseFault,
            OSError,
            RuntimeError,
        ) as error:  # RuntimeError: an exiting process cannot start threads.
            log.warning("The metadata could not be updated: %s", error)
            answer = self._assumed if self._answer is None else self._answer
            self._until = time.monotonic() + self._fresh[False]
        else:
            self._until = time.monotonic() + self._fresh[answer]
        finally:
            connections.close_all()
        self._answer = answer


def unreachable(fetch: Fetch = fetch) -> list[str]:
    """Return the hosts of the PUBLISHED documents that do not respond to the guarded client.

    Blocks for a few seconds.
    """
    return asyncio.run(_unreachable(fetch))


async def _unreachable(fetch: Fetch) -> list[str]:
    answers = await asyncio.gather(*(fetch(url, PROBE) for url in PUBLISHED), return_exceptions=True)
    for error in answers:
        if isinstance(error, BaseException) and not isinstance(error, EgressError):
            raise error
    hosts = [urlsplit(url).hostname or "" for url in PUBLISHED]
    return [host for host, got in zip(hosts, answers, strict=True) if isinstance(got, EgressError)]


def _any_signs() -> bool:
    return bool(Client.objects.filter(token_auth_method=METHOD, disabled_at=None).exists())


reaches_documents: Final = Fact(lambda: not unreachable(), assumed=True, yes_seconds=3_600.0, no_seconds=60.0)
signing_machines: Final = Fact(_any_signs, assumed=True, yes_seconds=30.0, no_seconds=30.0)


def documents_announced() -> bool:
    """Return True if the metadata announces support for client documents.

    A client that sees the announcement uses its document and does not register if the document cannot be
    fetched. If registration is enabled and OAUTH_DOCUMENTS is "auto", the support is therefore announced only
    if every host is allowed and the documents are reachable.
    """
    settings = conf.get()
    if not documents.accepted():
        return False
    if settings.oauth_documents == "on" or not settings.oauth_registration:
        return True
    return "*" in settings.oauth_document_hosts and reaches_documents()
