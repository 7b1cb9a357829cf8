"""What an app adds to the protocol itself: an extension, its settings and the methods that belong to it.

Like tools they are defined in an app's ``mcp.py``; a wrong definition is a DefinitionError at import. Which
revision and which client may use one is decided by the handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import orjson

from mcp_app.catalogue import json_schema, signatures
from mcp_app.catalogue.definitions import DefinitionError, ToolFunction
from mcp_app.catalogue.json_schema import Validator
from mcp_app.catalogue.registry import registry
from mcp_app.catalogue.wire_parts import check_permission
from mcp_app.observability.counts import METHODS
from mcp_app.protocol.capabilities import declares
from mcp_app.protocol.meta import is_reserved_key, is_valid_key
from mcp_app.protocol.methods import check_own_method, check_own_notification
from mcp_app.protocol.tasks import EXTENSION as TASKS
from mcp_app.protocol.versions import SERVED

# Extensions of the protocol's makers, which anybody may serve.
OFFICIAL: Final = "io.modelcontextprotocol/"
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A request that an extension adds; ``names`` are the members of its params that the function takes."""

    name: str
    function: ToolFunction
    names: frozenset[str]
    input: Validator
    code_path: str
    permission: str = ""
    cacheable: bool = False


@dataclass(slots=True, kw_only=True)
class Extension:
    """An extension as its app defines it. With ``declared_only`` no other client may use its methods."""

    id: str
    settings: dict[str, Any]
    versions: frozenset[str]
    declared_only: bool
    notifications: frozenset[str]
    methods: dict[str, Method] = field(default_factory=dict)

    def is_for(self, capabilities: dict[str, Any], version: str) -> bool:
        """Whether a client that declared these capabilities uses it at this revision."""
        return version in self.versions and (
            not self.declared_only or declares(capabilities, self.id, version)
        )

    def method(self, name: str, *, permission: str = "", cacheable: bool = False) -> Callable[[F], F]:
        """Serve a request by a function, sync or async.

        Its parameters are members of the request's ``params``, checked by their type hints; a ``Context`` is
        hidden, as in a tool. It returns the result, an object. What it raises as ToolError is the error
        -32602. ``permission`` is a Django permission without which there is no such method. A ``cacheable``
        result has the hints for caches that lists have on 2026-07-28.
        Raises DefinitionError.
        """

        def register(decorated: F) -> F:
            signature = signatures.read(decorated)
            where = signatures.code_path(decorated)
            try:
                check_own_method(name)
            except ValueError as error:
                raise DefinitionError(f"{where}: {error}") from None
            registry.check_method(name, where)
            METHODS.add(name)
            self.methods[name] = Method(
                name=name,
                function=signature.callable_with(signatures.binder(signature)),
                names=frozenset(item.name for item in signature.parameters),
                input=json_schema.compile_schema(signatures.input_schema(signature)),
                code_path=where,
                permission=check_permission(where, permission),
                cacheable=cacheable,
            )
            return decorated

        return register


def extension(
    id: str,  # noqa: A002 - what the specification calls it
    *,
    settings: Mapping[str, Any] | None = None,
    versions: Collection[str] = SERVED,
    declared_only: bool = True,
    notifications: Collection[str] = (),
) -> Extension:
    """Offer an extension of the protocol: ``shelves = extension("com.example/shelves")``.

    ``settings`` is what clients are told with its id, in ``capabilities.extensions`` on 2026-07-28 and in
    ``capabilities.experimental`` before. ``versions`` are the revisions that have it. Unless
    ``declared_only`` is false its methods are refused to clients that do not declare it. ``notifications``
    are the names it may send by ``Context.notify``.
    Raises DefinitionError.
    """
    where = f"The extension {id!r}"
    found = Extension(
        id=_checked_id(id),
        settings=_checked_settings(where, settings),
        versions=frozenset(versions),
        declared_only=declared_only,
        notifications=frozenset(notifications),
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
    """CAP-05: a prefix that is somebody's domain, and a name."""
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
    """What JSON makes of them, so that nothing can go wrong when they are sent."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise DefinitionError(f"{where}: settings must be a dict, got {settings!r}.")
    try:
        found: dict[str, Any] = orjson.loads(orjson.dumps(dict(settings)))
    except TypeError as error:
        raise DefinitionError(f"{where}: settings must be JSON: {error}.") from None
    return found
