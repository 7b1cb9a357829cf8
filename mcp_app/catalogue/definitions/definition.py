"""Definitions of tools, prompts, resources and templates: immutable records with wire form and function.

They do not use the database, requests or permission checks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from django.core.exceptions import ImproperlyConfigured

from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.definitions.tool_limits import ToolLimits

Wire = dict[str, Any]
CompletionSource = (
    Sequence[str]
    | Callable[[str, Mapping[str, str]], Sequence[str]]
    | Callable[[str, Mapping[str, str]], Awaitable[Sequence[str]]]
)


class DefinitionError(ImproperlyConfigured):
    """A decorated function that cannot be offered. The message names the function and the remedy."""

    # Read by ``CodeFault``: the error is in the calling code.
    blames_caller = True


class InvalidArgumentsError(ToolError):
    """Arguments that do not fit the declared types.

    The text gives the path, the expected type and the received value (TOOL-10).
    """


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A callable, and the binding of JSON arguments to its keyword arguments.

    ``bind`` returns a new dict, so the caller may add the context under ``context_name``. It raises
    InvalidArgumentsError if an argument violates a type that JSON Schema cannot express. With ``is_atomic``
    the call runs in one transaction.
    """

    call: Callable[..., Any]
    is_async: bool
    context_name: str | None
    bind: Callable[[dict[str, Any]], dict[str, Any]]
    never_waits: bool = False
    is_atomic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The common part of all kinds of definitions.

    ``code_path`` is ``module.qualified_name``, or empty for entries without code.
    """

    wire: Wire
    code_path: str
    permission: str = ""

    def read(self) -> Self:
        """Return the definition in its final form. Raises DefinitionError if its schemas cannot be built."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition(Definition, ToolLimits):
    """A tool. With ``wraps_result`` results are sent as ``{"result": value}`` (TOOL-18).

    ``fixed_arguments`` are added to the caller's arguments, and ``whole_input`` is the schema of both
    together. If the schemas are not built at import, ``deferred`` returns the final definition. Name,
    permission and limits are known at import, but ``wire`` and ``function`` must be taken from ``read()``.
    """

    name: str
    function: ToolFunction
    task_required: bool = False
    asks_first: ToolFunction | None = None
    wraps_result: bool = False
    deferred: Callable[[], ToolDefinition] | None = None
    fixed_arguments: Mapping[str, Any] = field(default_factory=dict)
    whole_input: Wire | None = None

    def read(self) -> ToolDefinition:
        """Return the definition in its final form. Raises DefinitionError if its schemas cannot be built."""
        return self if self.deferred is None else self.deferred()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDefinition(Definition):
    """A prompt from ``function`` or ``template``. ``choices`` maps arguments to their allowed values."""

    name: str
    function: ToolFunction | None = None
    template: str = ""
    completions: Mapping[str, CompletionSource] = field(default_factory=dict)
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDefinition(Definition):
    """A resource: ``uri`` is a URI, or an RFC 6570 template if ``is_template``.

    ``function`` or ``static`` returns its contents. ``static`` takes the URI and may block on a disk.
    ``content_revision`` is the catalogue revision at which an administrator last changed the content.
    """

    uri: str
    is_template: bool
    function: ToolFunction | None = None
    static: Callable[[str], list[dict[str, Any]]] | None = None
    content_revision: int = 0
    completions: Mapping[str, CompletionSource] = field(default_factory=dict)
