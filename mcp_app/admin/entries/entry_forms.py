"""Forms of catalogue entries. The last step of their validation is the service that writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import ModelForm
from mcp_app.admin.entries.differences import IN_CODE
from mcp_app.admin.markup import badge
from mcp_app.catalogue.changes.drafts import save_draft
from mcp_app.catalogue.changes.services import save_entry, update_entry
from mcp_app.catalogue.changes.states import service_values
from mcp_app.catalogue.sources.base import USUAL_OF_CODE, Source
from mcp_app.catalogue.sources.content.checks import SCHEME, with_scheme
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.sources.precedence import UNSET
from mcp_app.interface.text import marked, marked_block
from mcp_app.models import Draft, Prompt, Resource, Tool

Entry = Any

# Label of a field whose value differs from that of the source.
CHANGED: Final = "changed here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The purpose of a submitted form.

    ``actor`` is the user, ``as_draft`` is True to save a draft instead of publishing, and ``why`` is the
    reason for the change. ``seen`` is the revision of the entry and ``draft`` the pending draft that the page
    showed. ``shows`` is the draft whose values the form displays instead of the entry's values. ``source`` is
    the source of a new entry.
    """

    actor: Any = None
    as_draft: bool = False
    why: str = ""
    seen: int | None = None
    draft: Draft | None = None
    shows: Draft | None = None
    source: Source | None = None


class EntryForm(ModelForm[Any]):
    """A form that writes through a service and shows the errors of the service beside the fields."""

    intent: ClassVar[Intent] = Intent()

    class Media:
        js = ("mcp_app/entry_form.js",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Build the form. If ``intent.shows`` is set, the form shows the values of that draft."""
        if self.intent.shows is not None:
            kwargs["initial"] = {**(kwargs.get("initial") or {}), **_initial(self.intent.shows)}
        super().__init__(*args, **kwargs)
        if self.instance.pk is None and self.intent.source:
            self.instance.source = self.intent.source.stored
        _name_defaults(self.fields, source_of(self.instance).usual)
        _mark_fields(self.fields, self.instance, self.initial)
        # Clients refer to an entry by this field, so it is the first field to fill in on the form of a new
        # entry.
        first = next((name for name in ("uri", "name") if name in self.fields), "")
        if first and self.instance.pk is None:
            self.fields[first].widget.attrs["autofocus"] = True

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # Django's own forms extend the same hook.
        if not self.errors:
            self._write()

    def _write(self) -> None:
        # Browsers submit line ends as CR LF. This must not count as a change.
        wanted = {
            name: value.replace("\r\n", "\n") if isinstance(value, str) else value
            for name, value in self.cleaned_data.items()
        }
        try:
            self._write_entry(wanted)
        except ValidationError as error:
            self._complain(error)

    def _write_entry(self, wanted: dict[str, Any]) -> None:
        if not self.intent.as_draft:
            before = self.stored()
            self.instance = self.write(wanted)
            # The services do not write an unchanged entry, so its timestamp stays the same.
            self.instance.is_as_before = before is not None and before.updated_at == self.instance.updated_at
            return
        intent, row = self.intent, self.stored()
        # Preserve the draft's values of fields that this form does not have.
        before = service_values(intent.shows.values) if intent.shows is not None else {}
        self.instance.saved_draft = save_draft(
            kind=self._meta.model, actor=intent.actor, entry=row, draft=intent.draft, source=intent.source,
            note=intent.why, seen=intent.seen, **{**before, **wanted},
        )  # fmt: skip

    def _complain(self, error: ValidationError) -> None:
        if not hasattr(error, "error_dict"):
            self.add_error(None, error)
            return
        for name, problems in error.error_dict.items():
            if name in self.fields:
                self.add_error(name, problems)
            else:
                prefix = "" if name == NON_FIELD_ERRORS else f"{name}: "
                self.add_error(None, [f"{prefix}{text}" for problem in problems for text in problem.messages])

    def stored(self) -> Entry | None:
        """Return the entry from the database. The form's own instance already has the new values."""
        if self.instance.pk is None:
            return None
        return self._meta.model._default_manager.get(pk=self.instance.pk)

    def write(self, wanted: dict[str, Any]) -> Entry:
        """Write the entry through a service.

        For an entry that follows code, only appearance, limits and the switch are changed.
        """
        row = self.stored()
        if row is not None and source_of(row).follows:
            return update_entry(entry=row, **self.said(), **wanted)
        source = self.intent.source
        return save_entry(kind=self._meta.model, entry=row, source=source, **self.said(), **wanted)

    def said(self) -> dict[str, Any]:
        """Return arguments for a service.

        They are the actor, the reason, and the revision of the entry that the actor saw.
        """
        return {"actor": self.intent.actor, "why": self.intent.why, "seen": self.intent.seen}

    def save(self, commit: bool = True) -> Entry:
        """Return the entry, which has been written during validation."""
        return self.instance

    def save_m2m(self) -> None:
        """Do nothing, because entries have no many-to-many fields."""


class ToolForm(EntryForm):
    """The form of a preset, and of the appearance and limits of a tool from code."""

    class Meta:
        model = Tool
        fields = "__all__"


class PromptForm(EntryForm):
    """The form of a prompt made in the admin, and of the appearance of a prompt from code."""

    class Meta:
        model = Prompt
        fields = "__all__"


class ResourceForm(EntryForm):
    """The form of a stored text or file, and of the appearance of a resource from code."""

    class Meta:
        model = Resource
        fields = "__all__"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "uri" in self.fields:
            self.fields["uri"].help_text = f"A URI without a scheme is saved with {SCHEME}."
            self.fields["uri"].widget.attrs["data-scheme"] = SCHEME
        if "name" in self.fields:
            self.fields["name"].required = False
            self.fields["name"].help_text = "By default, the last part of the URI."

    def clean_uri(self) -> str:
        """Return the URI, with a scheme if the user entered none."""
        return with_scheme(self.cleaned_data["uri"].strip())

    def clean_name(self) -> str:
        """Return the name, or else the last part of the URI."""
        name: str = self.cleaned_data["name"]
        uri: str = self.cleaned_data.get("uri") or self.instance.uri
        return name or uri.rstrip("/").rpartition("/")[2].rpartition(":")[2]


def _initial(draft: Draft) -> dict[str, Any]:
    """Return the values of a draft as initial form data. Uploads are left out, as forms cannot show them."""
    values = {name: value for name, value in draft.values.items() if name != "file"}
    if "preset_of" in values:
        values["preset_of"] = (
            Tool.objects.filter(name=values["preset_of"]).values_list("pk", flat=True).first()
        )
    return values


def _name_defaults(fields: Mapping[str, Any], usual: str) -> None:
    """Name the default of empty fields in the help texts, which are written for tools from code."""
    in_code, own = f"{USUAL_OF_CODE}, or ", f"{usual}, or " if usual else ""
    for field in fields.values():
        field.help_text = field.help_text.replace(in_code, own)


def _mark_fields(fields: Mapping[str, Any], entry: Entry, values: Mapping[str, Any]) -> None:
    """Add to each field's help text the value from the source, and state if the form overrides it.

    Titles and descriptions from the source also become placeholders.
    """
    source = source_of(entry)
    for name, stated in source.in_force(entry).items():
        field = fields.get(name)
        if field is None or not stated:
            continue
        if name in IN_CODE:
            has_lines = isinstance(field.widget, forms.Textarea)
            field.widget.attrs["placeholder"] = marked_block(stated) if has_lines else marked(stated)
        said = _said(name, stated, source.origin, values.get(name))
        field.help_text = format_html("{} {}", field.help_text, said)


def _said(name: str, stated: Any, origin: str, value: Any) -> SafeString:
    if stated is True:
        return _marked(f"from {origin}", "It cannot be switched off here.")
    overrides = value not in UNSET
    if name in IN_CODE:
        if overrides:
            return _marked(CHANGED, f"Clear the field to use the text from {origin}.")
        return _marked(f"from {origin}", "Type to replace the grey text.")
    if name == "tags":
        stated = ", ".join(stated)
    shown = "the value" if isinstance(stated, list | dict) else marked(stated)
    if overrides:
        return _marked(CHANGED, f"Clear the field to use {shown} from {origin}.")
    return _marked(f"from {origin}", f"In use: {shown}.")


def _marked(word: str, sentence: str) -> SafeString:
    return format_html("{} {}", badge(word, "warn" if word == CHANGED else "plain"), sentence)
