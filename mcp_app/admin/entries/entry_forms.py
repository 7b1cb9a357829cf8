"""Forms of catalogue entries. Their last validation is the service that writes an entry or a draft."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError

from mcp_app.admin.base import ModelForm
from mcp_app.admin.entries.from_code import mark_fields
from mcp_app.catalogue.changes.drafts import save_draft
from mcp_app.catalogue.changes.services import save_entry, update_entry
from mcp_app.catalogue.changes.states import service_values
from mcp_app.catalogue.sources.base import Source
from mcp_app.catalogue.sources.registry import source_of
from mcp_app.models import Draft, Prompt, Resource, Tool

Entry = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A submitted form's purpose: the actor, draft or publication, the reason, and the page's state.

    ``draft`` is the pending draft that the page showed, ``seen`` the entry's revision. ``shows`` is the draft
    whose values the form displays instead of the entry's, ``source`` that of a new entry.
    """

    actor: Any = None
    as_draft: bool = False
    why: str = ""
    seen: int | None = None
    draft: Draft | None = None
    shows: Draft | None = None
    source: Source | None = None


class EntryForm(ModelForm[Any]):
    """A form that writes through a service and shows the service's errors beside their fields."""

    intent: ClassVar[Intent] = Intent()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Fill the form with the draft's values if ``intent.shows`` is set."""
        if self.intent.shows is not None:
            kwargs["initial"] = {**(kwargs.get("initial") or {}), **_initial(self.intent.shows)}
        super().__init__(*args, **kwargs)
        if self.instance.pk is None and self.intent.source:
            self.instance.source = self.intent.source.stored
        mark_fields(self.fields, self.instance, self.initial)
        # Clients refer to an entry by its key, so the form of a new one focuses that field.
        first = next((name for name in ("uri", "name") if name in self.fields), "")
        if first and self.instance.pk is None:
            self.fields[first].widget.attrs["autofocus"] = True

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # Django's own forms extend the same hook.
        if not self.errors:
            self._write()

    def _write(self) -> None:
        # Browsers submit CR LF line ends; that alone must not count as a change.
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
            # The services skip an unchanged entry, so its timestamp is the same.
            self.instance.is_as_before = before is not None and before.updated_at == self.instance.updated_at
            return
        intent, row = self.intent, self.stored()
        # Preserve the draft's values for fields that this form does not include.
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
        """Return the entry from the database: the form's instance already has the new values."""
        if self.instance.pk is None:
            return None
        return self._meta.model._default_manager.get(pk=self.instance.pk)

    def write(self, wanted: dict[str, Any]) -> Entry:
        """Write the entry.

        An entry that follows code only changes its appearance, limits and switch.
        """
        row = self.stored()
        if row is not None and source_of(row).follows:
            return update_entry(entry=row, **self.said(), **wanted)
        source = self.intent.source
        return save_entry(kind=self._meta.model, entry=row, source=source, **self.said(), **wanted)

    def said(self) -> dict[str, Any]:
        """Return the actor, the reason and the revision they saw, as arguments for a service."""
        return {"actor": self.intent.actor, "why": self.intent.why, "seen": self.intent.seen}

    def save(self, commit: bool = True) -> Entry:
        """Return the entry written during validation."""
        return self.instance

    def save_m2m(self) -> None:
        """Do nothing: entries have no many-to-many fields."""


class ToolForm(EntryForm):
    """The form of a preset, or the appearance and limits of a tool from code."""

    class Meta:
        model = Tool
        fields = "__all__"


class PromptForm(EntryForm):
    """The form of a prompt made in the admin, or the appearance of a prompt from code."""

    class Meta:
        model = Prompt
        fields = "__all__"


class ResourceForm(EntryForm):
    """The form of a stored text or file, or the appearance of a resource from code."""

    class Meta:
        model = Resource
        fields = "__all__"


def _initial(draft: Draft) -> dict[str, Any]:
    """Return a draft's values as initial form data, without uploads, which a form cannot show."""
    values = {name: value for name, value in draft.values.items() if name != "file"}
    if "preset_of" in values:
        values["preset_of"] = (
            Tool.objects.filter(name=values["preset_of"]).values_list("pk", flat=True).first()
        )
    return values
