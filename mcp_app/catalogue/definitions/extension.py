"""An extension of the protocol and its methods. This module does not use the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mcp_app.catalogue.definitions import input_schemas, signatures
from mcp_app.catalogue.definitions.definition import DefinitionError, ToolFunction
from mcp_app.catalogue.definitions.wire_parts import check_permission
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.schemas.validation import Validator
from mcp_app.protocol.capabilities import declares
from mcp_app.protocol.messages.methods import METHODS, check_own_method

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A request that an extension adds. ``names`` are the params that the function takes."""

    name: str
    function: ToolFunction
    names: frozenset[str]
    input: Validator
    code_path: str
    permission: str = ""
    cacheable: bool = False


@dataclass(slots=True, kw_only=True)
class Extension:
    """An extension defined by an app. With ``declared_only``, clients must declare it to use its methods."""

    id: str
    settings: dict[str, Any]
    versions: frozenset[str]
    declared_only: bool
    notifications: frozenset[str]
    # Takes the name of a method and its code path. Raises DefinitionError if the name is taken.
    check_free: Callable[[str, str], None]
    methods: dict[str, Method] = field(default_factory=dict)

    def is_for(self, capabilities: dict[str, Any], version: str) -> bool:
        """Return True if a client with these capabilities can use the extension at this revision."""
        return version in self.versions and (
            not self.declared_only or declares(capabilities, self.id, version)
        )

    def method(self, name: str, *, permission: str = "", cacheable: bool = False) -> Callable[[F], F]:
        """Register a function, sync or async, as the handler of the request ``name``.

        The function's parameters are members of the request's ``params`` and are checked against their type
        hints. The server passes a ``Context`` parameter, as in a tool. The function returns the result, an
        object. A ToolError becomes the error -32602. For callers without the Django permission ``permission``
        the method does not exist. A ``cacheable`` result has the same cache hints as lists on 2026-07-28.

        Raises DefinitionError.
        """

        def register(decorated: F) -> F:
            signature = signatures.read(decorated)
            where = signatures.code_path(decorated)
            try:
                check_own_method(name)
            except ValueError as error:
                raise DefinitionError(f"{where}: {error}") from None
            self.check_free(name, where)
            METHODS.add(name)
            self.methods[name] = Method(
                name=name,
                function=signature.callable_with(input_schemas.binder(signature)),
                names=frozenset(item.name for item in signature.parameters),
                input=validation.compile_schema(input_schemas.input_schema(signature)),
                code_path=where,
                permission=check_permission(where, permission),
                cacheable=cacheable,
            )
            return decorated

        return register
