"""The registry of entries defined in code, in the order of registration. It uses no database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from mcp_app.catalogue.definitions.definition import (
    Definition,
    DefinitionError,
    PromptDefinition,
    ResourceDefinition,
    ToolDefinition,
)
from mcp_app.catalogue.definitions.extension import Extension
from mcp_app.catalogue.schemas.client_rules import RuleViolation, refusals

EXAMPLES = "mcp_app.contrib."


@dataclass(slots=True)
class Registry:
    """Ordered maps: tools and prompts by name, resources by URI or template, extensions by id."""

    tools: dict[str, ToolDefinition] = field(default_factory=dict)
    prompts: dict[str, PromptDefinition] = field(default_factory=dict)
    resources: dict[str, ResourceDefinition] = field(default_factory=dict)
    templates: dict[str, ResourceDefinition] = field(default_factory=dict)
    extensions: dict[str, Extension] = field(default_factory=dict)

    def add_tool(self, definition: ToolDefinition) -> None:
        """Register a tool. Raises DefinitionError if other code uses its name (TOOL-06)."""
        _refuse_duplicate("tool", definition.name, self.tools.get(definition.name), definition)
        self.tools[definition.name] = definition

    def add_prompt(self, definition: PromptDefinition) -> None:
        """Register a prompt. Raises DefinitionError if other code uses its name."""
        _refuse_duplicate("prompt", definition.name, self.prompts.get(definition.name), definition)
        self.prompts[definition.name] = definition

    def add_resource(self, definition: ResourceDefinition) -> None:
        """Register a resource or template. Raises DefinitionError if other code uses its URI."""
        home = self.templates if definition.is_template else self.resources
        _refuse_duplicate("resource", definition.uri, home.get(definition.uri), definition)
        home[definition.uri] = definition

    def add_extension(self, found: Extension) -> None:
        """Register an extension. Raises DefinitionError if its id is taken."""
        if found.id in self.extensions:
            raise DefinitionError(f"There is already an extension {found.id!r}. Give one another id.")
        self.extensions[found.id] = found

    def unreadable_tools(self) -> Iterator[DefinitionError]:
        """Yield the DefinitionError of each tool whose schemas cannot be built."""
        for definition in self.tools.values():
            try:
                definition.read()
            except DefinitionError as error:
                yield error

    def refused_tools(self) -> Iterator[RuleViolation]:
        """Yield each rule of a known client that a tool with valid schemas violates."""
        for definition in self.tools.values():
            with suppress(DefinitionError):
                yield from refusals(definition.read().wire)

    def check_method(self, name: str, code_path: str) -> None:
        """Raise DefinitionError if other code already serves the extension method ``name``."""
        for found in self.extensions.values():
            present = found.methods.get(name)
            if present is not None and present.code_path != code_path:
                raise DefinitionError(
                    f"{code_path}: there is already a method {name!r}, defined by {present.code_path}. "
                    "Give one of them another name."
                )

    @contextmanager
    def isolated(self) -> Iterator[Registry]:
        """Yield an empty registry for a test, and restore the former content afterwards."""
        names = ("tools", "prompts", "resources", "templates", "extensions")
        before = {name: getattr(self, name) for name in names}
        for name in names:
            setattr(self, name, {})
        try:
            yield self
        finally:
            for name, found in before.items():
                setattr(self, name, found)


def _refuse_duplicate(kind: str, key: str, present: Definition | None, new: Definition) -> None:
    # The same function again means a reloaded module, not a conflict.
    if present is not None and present.code_path != new.code_path:
        remedy = "Give one of them another name."
        if present.code_path.startswith(EXAMPLES):
            remedy = "Rename yours, or switch ours off: DEMO=off, or remove that app from INSTALLED_APPS."
        raise DefinitionError(
            f"{new.code_path}: there is already a {kind} {key!r}, defined by {present.code_path}. {remedy}"
        )


registry = Registry()
