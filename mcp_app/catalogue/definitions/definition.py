"""What a source offers, as immutable records: tool, prompt, resource or template with wire form and function.

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
    """A decorated function cannot be offered; the message names it and the remedy."""

    # Read by ``CodeFault``: the mistake is in the code that called ours.
    blames_caller = True


class InvalidArgumentsError(ToolError):
    """The arguments do not fit the declared types; the text names path, expected and got (TOOL-10)."""


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A callable and how JSON arguments become its keyword arguments.

    ``bind`` returns a fresh dict, so the caller may add the context under ``context_name``; it raises
    InvalidArgumentsError when a richer type than JSON Schema can express is not met. ``is_atomic``: it runs
    in one transaction.
    """

    call: Callable[..., Any]
    is_async: bool
    context_name: str | None
    bind: Callable[[dict[str, Any]], dict[str, Any]]
    never_waits: bool = False
    is_atomic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What all kinds share; ``code_path`` is ``module.qualified_name``, empty of what no code defines."""

    wire: Wire
    code_path: str
    permission: str = ""

    def read(self) -> Self:
        """Return the definition with its final wire form; raises DefinitionError if there is none."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition(Definition, ToolLimits):
    """A tool; ``wraps_result`` says that ``{"result": value}`` travels (TOOL-18).

    ``fixed_arguments`` are added to those of a caller; ``whole_input`` is the schema that both together fit.

    ``deferred`` returns the final definition of a tool whose schemas are not read at import. Until then name,
    permission and limits are known, ``wire`` and ``function`` are not: use ``read()`` for them.
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
        """Return the definition with its final wire form; raises DefinitionError if there is none."""
        return self if self.deferred is None else self.deferred()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDefinition(Definition):
    """A prompt made by ``function`` or from ``template``; ``choices`` are the values of an argument."""

    name: str
    function: ToolFunction | None = None
    template: str = ""
    completions: Mapping[str, CompletionSource] = field(default_factory=dict)
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDefinition(Definition):
    """A resource: ``uri`` is a URI, or an RFC 6570 template when ``is_template``.

    ``function`` or ``static`` gives its contents. ``static`` takes the URI and may block on a disk;
    ``content_revision`` is the catalogue's when an administrator last changed what it gives.
    """

    uri: str
    is_template: bool
    function: ToolFunction | None = None
    static: Callable[[str], list[dict[str, Any]]] | None = None
    content_revision: int = 0
    completions: Mapping[str, CompletionSource] = field(default_factory=dict)
