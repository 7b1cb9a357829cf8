"""Extensions of the protocol that apps define: settings, methods and notifications.

Like tools they are defined in an app's ``mcp.py``. An invalid definition raises a DefinitionError at import.
The handlers decide which revisions and clients may use an extension.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import orjson

from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.extension import Extension
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.protocol.features.tasks import EXTENSION as TASKS
from mcp_app.protocol.messages.meta import is_reserved_key, is_valid_key
from mcp_app.protocol.messages.methods import check_own_notification
from mcp_app.protocol.versions import SERVED

# Extensions published by the authors of the protocol, which any server may serve.
OFFICIAL: Final = "io.modelcontextprotocol/"


def extension(
    id: str,  # noqa: A002 - the name in the specification
    *,
    settings: Mapping[str, Any] | None = None,
    versions: Collection[str] = SERVED,
    declared_only: bool = True,
    notifications: Collection[str] = (),
) -> Extension:
    """Offer an extension of the protocol.

    An example: ``shelves = extension("com.example/shelves")``.

    Clients receive the id and the ``settings`` in ``capabilities.extensions``. Before 2026-07-28 they receive
    both in ``capabilities.experimental`` as well. ``versions`` are the protocol revisions that offer the
    extension. Unless ``declared_only`` is false, clients that do not declare it cannot call its methods.
    ``notifications`` are the names that ``Context.notify`` may send.
    Raises DefinitionError.
    """
    where = f"The extension {id!r}"
    found = Extension(
        id=_checked_id(id),
        settings=_checked_settings(where, settings),
        versions=frozenset(versions),
        declared_only=declared_only,
        notifications=frozenset(notifications),
        check_free=registry.check_method,
    )
    if unknown := sorted(found.versions - frozenset(SERVED)):
        raise DefinitionError(f"{where}: {unknown[0]!r} is no revision; there are {', '.join(SERVED)}.")
    try:
        for name in sorted(found.notifications):
            check_own_notification(name)
    except ValueError as error:
        raise DefinitionError(f"{where}: {error}") from None
    registry.add_extension(found)
    return found


def _checked_id(name: str) -> str:
    """Return an id that has a reverse-domain prefix and a name (CAP-05). Raises DefinitionError."""
    if type(name) is not str or "/" not in name or not is_valid_key(name):
        raise DefinitionError(
            f"{name!r} is no id for an extension: it needs a prefix of your own and a name, "
            "such as 'com.example/shelves'."
        )
    if name == TASKS:
        raise DefinitionError(f"The extension {name!r} is served by this server itself.")
    if is_reserved_key(name) and not name.startswith(OFFICIAL):
        raise DefinitionError(
            f"The prefix of the extension {name!r} is reserved by the protocol: use a domain of your own."
        )
    return name


def _checked_settings(where: str, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings after a JSON round trip, so that they can always be encoded."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise DefinitionError(f"{where}: settings must be a dict, got {settings!r}.")
    try:
        found: dict[str, Any] = orjson.loads(orjson.dumps(dict(settings)))
    except TypeError as error:
        raise DefinitionError(f"{where}: settings must be JSON: {error}.") from None
    return found
