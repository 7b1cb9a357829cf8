"""Admin pages of the four kinds of catalogue entries: fields, permissions and copies of each kind."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import ValidationError
from django.core.files import File
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from mcp_app.admin.callers import limits as limit_tables
from mcp_app.admin.callers.links import pages_to_limit
from mcp_app.admin.entries.callers import rule_of
from mcp_app.admin.entries.entry_admin import EntryAdmin
from mcp_app.admin.entries.entry_filters import PresetFilter
from mcp_app.admin.entries.entry_forms import EntryForm, PromptForm, ResourceForm, ToolForm
from mcp_app.admin.entries.http.pages import HttpToolPages
from mcp_app.admin.entries.transfer import TransferPages
from mcp_app.admin.markup import badge, json_block
from mcp_app.admin.widgets import ArgumentsWidget, UploadWidget
from mcp_app.catalogue.access import permission_of
from mcp_app.catalogue.exposure.viewsets.offering import has_open_view
from mcp_app.catalogue.schemas.client_rules import refusals
from mcp_app.catalogue.schemas.strict_json import parse_json
from mcp_app.catalogue.snapshots.current_snapshot import loaded
from mcp_app.catalogue.sources.base import LIMITS
from mcp_app.catalogue.sources.lookup import related, source_of
from mcp_app.catalogue.sources.preset.source import PRESET
from mcp_app.interface.text import visible
from mcp_app.limits.rules import EACH
from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool

APPROVAL = ("needs_approval", "approval_minutes", "four_eyes")


@admin.register(Tool)
class ToolAdmin(HttpToolPages, TransferPages, EntryAdmin):
    """Admin pages of tools. A new tool is a preset of another tool unless the user chooses another source."""

    kind = "tool"
    form = ToolForm
    limit_fields = tuple(name for name in LIMITS if name not in APPROVAL)
    approval_fields = APPROVAL
    definition_fields = (
        "name",
        "code_description",
        "shown_callers",
        "shown_execution",
        "shown_refusals",
        "shown_definition",
    )
    list_filter = (*EntryAdmin.list_filter, PresetFilter)
    search_fields = ("name", "title", "description", "permission")
    list_select_related = related(Tool)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer only tools that are not presets themselves as the base of a preset."""
        if db_field.name == "preset_of":
            kwargs["queryset"] = PRESET.bases()
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        if db_field.name == "preset_of" and field is not None:
            field.required = True
            field.label = "Preset of"
            field.help_text = "The tool that the preset calls."
        return field

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Protect tools on which presets are based. The presets must be deleted first."""
        going, counts, missing_permissions, protected = super().get_deleted_objects(objs, request)
        presets = (visible(preset) for preset in PRESET.made_from(objs))
        return going, counts, missing_permissions, [*protected, *presets]

    def definition_fields_of(self, entry: Any) -> tuple[Any, ...]:
        """Add clients' refusals and the arguments of the base tool to the fields of a preset."""
        facts = super().definition_fields_of(entry)
        return (*facts, "shown_refusals", "tool_schema") if source_of(entry).base_of(entry) else facts

    def preset_link(self, request: HttpRequest, entry: Any) -> dict[str, Any] | None:
        """Return the address of the form for a new preset of the same base tool.

        The arguments that this entry fixes are returned as well.
        """
        if not self.has_add_permission(request):
            return None
        tool = source_of(entry).base_of(entry) or entry
        return {"url": self.page_url("add"), "tool": tool.pk, "fixed": entry.fixed_arguments}

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Parse the fixed arguments that the test bench sends in the query string.

        Invalid JSON is ignored.
        """
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        if "fixed_arguments" in initial:
            try:
                initial["fixed_arguments"] = parse_json(initial["fixed_arguments"])
            except ValidationError:
                del initial["fixed_arguments"]
        return initial

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Add the limits of the tool, for users who may view limits."""
        more = super().form_context(request, object_id)
        tool = self.get_object(request, unquote(object_id))
        if tool is not None:
            served = loaded().tools.get(tool.name)
            more["limit_pages"] = pages_to_limit(
                request.user, tool.name, who="user", who_value=EACH, what="tool", what_value=tool.name
            )
            more["rules"] = limit_tables.of_tool(request, tool.name, () if served is None else served.tags)
        return more

    @admin.display(description="arguments of the tool")
    def tool_schema(self, preset: Tool) -> SafeString:
        """Return the input schema of the base tool, against which the fixed arguments are validated."""
        tool = source_of(preset).base_of(preset)
        return json_block(tool.input_schema if tool else None)

    @admin.display(description="who can use it")
    def shown_callers(self, tool: Tool) -> str:
        """Return a phrase about who may call the tool.

        The tool's own code may impose further restrictions.
        """
        exposed = (source_of(tool).base_of(tool) or tool).name
        if permission_of(tool):
            return visible(rule_of(tool))
        if has_open_view(exposed):
            return "everyone: neither the tool nor its view requires a permission"
        return "everyone, unless its code refuses them"

    @admin.display(description="runs")
    def shown_execution(self, tool: Tool) -> str:
        """Return a phrase about where the tool runs by its definition and what clients must support."""
        definition: Any = source_of(tool).definition(tool)
        if definition is None or not definition.background:
            return "in the web process, unless Background on the tab Execution is on"
        facts = ["in a worker"]
        if definition.task_required:
            facts.append("only as a task for clients of 2025-11-25 and 2026-07-28")
        if definition.asks_first is not None:
            facts.append("after questions that are asked before the task is made")
        return "; ".join(facts)

    @admin.display(description="compatibility")
    def shown_refusals(self, tool: Tool) -> SafeString:
        """Return a list of the clients that reject the tool's schema, with a remedy for each."""
        found = refusals({"name": tool.name, "inputSchema": source_of(tool).arguments_of(tool) or {}})
        if not found:
            return badge("works with all known clients", "good")
        lines = ((badge("refused", "warn"), visible(each), each.rule.remedy) for each in found)
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{} {} {}</li>", lines))


@admin.register(Prompt)
class PromptAdmin(EntryAdmin):
    """Admin pages of prompts. A new prompt is a text with placeholders."""

    kind = "prompt"
    form = PromptForm
    definition_fields = ("name", "code_description", "shown_definition")
    search_fields = ("name", "title", "description", "permission", "template")

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Show the arguments as rows that can be edited."""
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "arguments":
            field.widget = ArgumentsWidget()
            field.help_text = "Each placeholder in the text gets a row."
        return field


@admin.register(Resource)
class ResourceAdmin(EntryAdmin):
    """Admin pages of resources with a fixed URI. A new resource is a text or an uploaded file."""

    kind = "resource"
    key_field = "uri"
    form = ResourceForm
    definition_fields = ("uri", "name", "mime_type", "code_description", "shown_definition")
    search_fields = ("uri", "name", "title", "description", "permission")

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Use an upload widget without a link to the file."""
        if db_field.name == "file":
            return db_field.formfield(
                widget=UploadWidget(), help_text="Instead of text. A new file replaces the stored file."
            )
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def duplicate(self, entry: Any, actor: Any, **changed: Any) -> Any:
        """Copy the entry together with its uploaded file.

        If two entries shared a file, deleting one entry would delete the file of both.
        """
        if not entry.file:
            return super().duplicate(entry, actor, file="", **changed)
        with entry.file.open("rb") as stored:
            copy = File(stored.file, name=PurePath(entry.file.name).name)
            return super().duplicate(entry, actor, file=copy, **changed)

    def definition_fields_of(self, entry: Any) -> tuple[Any, ...]:
        """Add the name of the current file if the resource is an uploaded file."""
        facts = super().definition_fields_of(entry)
        return (*facts, "current_file") if entry.file else facts

    @admin.display(description="uploaded file")
    def current_file(self, resource: Resource) -> SafeString:
        """Return the name of the stored file."""
        return visible(PurePath(resource.file.name or "").name)


@admin.register(ResourceTemplate)
class ResourceTemplateAdmin(EntryAdmin):
    """Admin pages of resource templates. Templates are always defined in code."""

    kind = "template"
    key_field = "uri_template"
    form = EntryForm
    definition_fields = ("uri_template", "name", "mime_type", "code_description", "shown_definition")
    search_fields = ("uri_template", "name", "title", "description", "permission")
    actions = ("enable_entries", "disable_entries", "set_permission")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False, because a template needs a function in code."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False for a template from code, because it would be restored."""
        return obj is not None and not source_of(obj).follows and super().has_delete_permission(request, obj)
