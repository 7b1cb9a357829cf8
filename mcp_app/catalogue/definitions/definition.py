"""What code defines, as immutable records: tool, prompt, resource or template with function and wire form.

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
    """What every code-defined entry shares; ``code_path`` is ``module.qualified_name``."""

    wire: Wire
    function: ToolFunction
    code_path: str
    permission: str = ""

    def read(self) -> Self:
        """Return the definition with its final wire form; raises DefinitionError if there is none."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition(Definition, ToolLimits):
    """A code-defined tool; ``wraps_result`` says that ``{"result": value}`` travels (TOOL-18).

    ``deferred`` returns the final definition of a tool whose schemas are not read at import. Until then name,
    permission and limits are known, ``wire`` and ``function`` are not: use ``read()`` for them.
    """

    name: str
    task_required: bool = False
    asks_first: ToolFunction | None = None
    wraps_result: bool = False
    deferred: Callable[[], ToolDefinition] | None = None

    def read(self) -> ToolDefinition:
        """Return the definition with its final wire form; raises DefinitionError if there is none."""
        return self if self.deferred is None else self.deferred()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDefinition(Definition):
    """A code-defined prompt; ``choices`` restrict an argument to listed values."""

    name: str
    completions: Mapping[str, CompletionSource] = field(default_factory=dict)
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDefinition(Definition):
    """A code-defined resource: ``uri`` is a URI, or an RFC 6570 template when ``is_template``."""

    uri: str
    is_template: bool
    completions: Mapping[str, CompletionSource] = field(default_factory=dict)
