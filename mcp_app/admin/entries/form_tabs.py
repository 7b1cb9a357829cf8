"""The tabs of an entry's form: which fields each tab has, and which tab has errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple

from django.contrib.admin.utils import flatten
from django.http import HttpRequest, HttpResponse

from mcp_app.admin.entries.entry_drafts import DraftPages
from mcp_app.admin.entries.read_only import definition_columns, in_force
from mcp_app.catalogue.sources.lookup import source_of

# The tabs in the order of the form. Each key is the address of a tab within the page.
TABS: Final = {"text": "General", "access": "Access", "limits": "Execution", "definition": "Definition"}
Entry = Any
Fieldset = tuple[str | None, dict[str, Any]]


class FormTab(NamedTuple):
    """A tab: its address within the page, title, number of errors, and fieldsets."""

    name: str
    title: str
    errors: int
    fieldsets: list[Any]


class TabbedForm(DraftPages):
    """The part of an entry's pages that divides the form into tabs."""

    text_fields: ClassVar[tuple[str, ...]] = ("title", "description", "tags")
    access_fields: ClassVar[tuple[str, ...]] = ("enabled", "permission")
    approval_fields: ClassVar[tuple[str, ...]] = ()
    limit_fields: ClassVar[tuple[str, ...]] = ()
    list_fields: ClassVar[tuple[str, ...]] = ("position", "icons")
    definition_fields: ClassVar[tuple[str, ...]] = ("shown_definition",)

    def get_fieldsets(self, request: HttpRequest, obj: Entry | None = None) -> Any:
        """Return the fieldsets in the order of the tabs."""
        source = self.form_source(request, obj)
        own = () if source.follows else source.own_fields.get(self.model, ())
        # The request of a prompt or resource of another server is not shown.
        own = tuple(name for name in own if self.model._meta.get_field(name).editable)
        more = () if source.follows else ("meta",)
        parts = (
            ("text", TABS["text"], (*own, *self.fields_for(request, obj, self.text_fields))),
            ("access", "Access", self.fields_for(request, obj, self.access_fields)),
            ("access", "Approval", self.fields_for(request, obj, self.approval_fields)),
            ("limits", "Execution", self.fields_for(request, obj, self.limit_fields)),
            ("definition", "Definition", self.definition_fields_of(obj) if obj is not None else ()),
            ("definition", "In lists", self.fields_for(request, obj, (*self.list_fields, *more))),
        )
        return [(title, {"fields": each, "classes": (_mark(tab),)}) for tab, title, each in parts if each]

    def fields_for(self, request: HttpRequest, entry: Entry | None, names: tuple[str, ...]) -> Any:
        """Return the editable fields.

        Users who may not change the entry get fields that show the effective values.
        """
        looks = entry is not None and not self.has_change_permission(request, entry)
        return in_force(entry, names) if looks else names

    def definition_fields_of(self, entry: Entry) -> tuple[Any, ...]:
        """Return the read-only fields on an entry's page."""
        facts, source = ("shown_source", "updated", "editor"), source_of(entry)
        if not source.follows:
            return facts
        named_by = {each.__name__: each for each in definition_columns(source.origin)}
        return (*facts, *(named_by.get(name, name) for name in self.definition_fields))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the tabs to the template context."""
        tabs = list(_tabs(context["adminform"]))
        return super().render_change_form(request, {**context, "tabs": tabs}, *args, **kwargs)


def _tabs(form: Any) -> Iterator[FormTab]:
    fieldsets = list(form)
    for name, title in TABS.items():
        own = [each for each in fieldsets if _mark(name) in each.classes.split()]
        names = {field for each in own for field in flatten(each.fields)}
        if own:
            yield FormTab(name, title, len(names & form.form.errors.keys()), own)


def _mark(tab: str) -> str:
    # Unfold hides the headings of fieldsets whose classes contain "tab".
    return f"mcp-part-{tab}"
