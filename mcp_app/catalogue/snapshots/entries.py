"""The immutable entries of a snapshot. They can be listed, checked and run without the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mcp_app.catalogue.definitions.definition import CompletionSource, ToolFunction, Wire
from mcp_app.catalogue.definitions.tool_limits import APPROVAL_MINUTES, ToolLimits
from mcp_app.catalogue.schemas.validation import Validator
from mcp_app.catalogue.sources.content.rendering import render
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.http.param_headers import ParamHeader

Order = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The common part of all kinds of entries.

    ``order`` is (rank of the source, position, row id); entries of code have rank 0 and others rank 1.
    ``source`` is the stored name of the source.
    """

    wire: Wire
    permission: str
    order: Order
    tags: tuple[str, ...] = ()
    source: str = ""

    @property
    def is_built(self) -> bool:
        """True if all members have a value; see ``deferred``."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry(Entry, ToolLimits):
    """A tool with its effective limits.

    ``task_required`` implies ``background``. ``asks_first`` runs before a task is created. ``identity`` is a
    digest of code and fixed arguments. ``revision`` is the catalogue revision, and is set only for tools that
    need approval. ``secret_names`` are arguments whose values must not appear in logs.
    """

    name: str
    identity: str = ""
    revision: int = 0
    function: ToolFunction
    input: Validator
    output: Validator | None
    timeout: float = field()
    approval_minutes: int = APPROVAL_MINUTES
    task_required: bool = False
    asks_first: ToolFunction | None = None
    wraps_result: bool = False
    param_headers: tuple[ParamHeader, ...] = ()
    fixed_arguments: Mapping[str, Any] = field(default_factory=dict)
    whole_input: Validator | None = None
    secret_names: frozenset[str] = frozenset()

    def check(self, arguments: dict[str, Any]) -> str | None:
        """Return None for valid arguments, else a line with path, expected and received value (TOOL-10)."""
        if not self.input.is_valid(arguments):
            return self.input.explain(arguments)
        if self.whole_input is not None:
            whole = {**arguments, **self.fixed_arguments}
            if not self.whole_input.is_valid(whole):
                # Callers cannot see fixed arguments, which may be secret.
                return self.whole_input.explain(whole, hidden=self.fixed_arguments)
        return None

    def check_output(self, structured: Any) -> str | None:
        """Return None if structured content fits the output schema, else the failures as text (TOOL-16)."""
        if self.output is None or self.output.is_valid(structured):
            return None
        return self.output.explain(structured)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEntry(Entry):
    """A prompt from a function, or from ``template`` if ``function`` is None."""

    name: str
    function: ToolFunction | None
    template: str = ""
    required: tuple[str, ...] = ()
    declared: frozenset[str] = frozenset()
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    completions: Mapping[str, CompletionSource] = field(default_factory=dict)

    def accept(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the given arguments that are declared. Raises InvalidParams (PROMPT-03, PROMPT-04).

        A null argument counts as missing.
        """
        arguments = {name: value for name, value in arguments.items() if value is not None}
        for name, value in arguments.items():
            if not isinstance(value, str):
                raise InvalidParams(f"Prompt argument {name!r} must be a string.")
            if name in self.choices and value not in self.choices[name]:
                raise InvalidParams(
                    f"Prompt argument {name!r} must be one of: {', '.join(self.choices[name])}."
                )
        if missing := [name for name in self.required if name not in arguments]:
            raise InvalidParams(f"Missing required prompt arguments: {', '.join(missing)}.")
        return {name: value for name, value in arguments.items() if name in self.declared}

    def render(self, arguments: Mapping[str, str]) -> str:
        """Return the text of an admin-made prompt."""
        return render(self.template, arguments, self.declared)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceEntry(Entry):
    """A resource or template from a function, or from ``static`` if ``function`` is None.

    ``static`` takes the URI and returns the ``contents`` list. It may block on a disk and raises
    ResourceNotFound. ``content_revision`` is the catalogue revision at which an administrator last changed
    the content, or 0 for code.
    """

    uri: str
    function: ToolFunction | None
    mime_type: str = ""
    match: Callable[[str], dict[str, str] | None] | None = None
    static: Callable[[str], list[dict[str, Any]]] | None = None
    variables: tuple[str, ...] = ()
    completions: Mapping[str, CompletionSource] = field(default_factory=dict)
    content_revision: int = 0


class Built(NamedTuple):
    """An entry and the hash of its row."""

    hash: int
    entry: Any


class BuiltEntries(NamedTuple):
    """The built entries of a snapshot by kind and row id.

    ``made_from`` holds everything beside the rows that the entries depend on. ``toolsets`` are the toolsets
    of the snapshot by path, made from ``toolset_rows`` at ``revision``.
    """

    made_from: Any = None
    by_kind: Mapping[type[Any], Mapping[int, Built]] = {}
    toolsets: Mapping[str, Any] = {}
    toolset_rows: Sequence[Any] = ()
    revision: int = -1


NOTHING_BUILT: Final = BuiltEntries()
