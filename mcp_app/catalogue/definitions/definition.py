"""Definitions of tools, prompts, resources and templates: immutable records with wire form and function.

Independent of the database, of requests and of permissions.
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
    """A decorated function that cannot be offered; the message names it and the remedy."""

    # Read by ``CodeFault``: the error is in the calling code.
    blames_caller = True


class InvalidArgumentsError(ToolError):
    """Arguments that do not fit the declared types; the text has path, expected and received (TOOL-10)."""


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A callable, and the binding of JSON arguments to its keyword arguments.

    ``bind`` returns a fresh dict, so the caller may add the context under ``context_name``. It raises
    InvalidArgumentsError if a type that JSON Schema cannot express is violated. ``is_atomic``: it runs in one
    transaction.
    """

    call: Callable[..., Any]
    is_async: bool
    context_name: str | None
    bind: Callable[[dict[str, Any]], dict[str, Any]]
    never_waits: bool = False
    is_atomic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The common part of all kinds; ``code_path`` is ``module.qualified_name``, empty without code."""

    wire: Wire
    code_path: str
    permission: str = ""

    def read(self) -> Self:
        """Return the definition with its final wire form. Raises DefinitionError if it is unreadable."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition(Definition, ToolLimits):
    """A tool; ``wraps_result`` means that results are sent as ``{"result": value}`` (TOOL-18).

    ``fixed_arguments`` are added to those of a caller; ``whole_input`` is the schema for both. ``deferred``
    returns the final definition of a tool whose schemas are not read at import. Until then name, permission
    and limits are known, but use ``read()`` for ``wire`` and ``function``.
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
        """Return the definition with its final wire form. Raises DefinitionError if it is unreadable."""
        return self if self.deferred is None else self.deferred()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDefinition(Definition):
    """A prompt from ``function`` or ``template``; ``choices`` are the allowed values of arguments."""

    name: str
    function: ToolFunction | None = None
    template: str = ""
    completions: Mapping[str, CompletionSource] = field(default_factory=dict)
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDefinition(Definition):
    """A resource: ``uri`` is a URI, or an RFC 6570 template if ``is_template``.

    ``function`` or ``static`` returns its contents. ``static`` takes the URI and may block on a disk.
    ``content_revision`` is the revision of an administrator's last change of the content.
    """

    uri: str
    is_template: bool
    function: ToolFunction | None = None
    static: Callable[[str], list[dict[str, Any]]] | None = None
    content_revision: int = 0
    completions: Mapping[str, CompletionSource] = field(default_factory=dict)
