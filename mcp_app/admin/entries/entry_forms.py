"""Owns the forms of catalogue entries; their last check is the service that writes an entry or a draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError

from mcp_app.admin.base import ModelForm
from mcp_app.admin.entries.from_code import mark_fields
from mcp_app.catalogue.changes.drafts import save_draft
from mcp_app.catalogue.changes.services import save_prompt, save_resource, save_tool_preset, update_entry
from mcp_app.catalogue.changes.states import service_values
from mcp_app.catalogue.sources.registry import source_of
from mcp_app.models import Draft, Prompt, Resource, Tool

Entry = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What somebody wants with a form: ``as_draft`` or at once, why, and what the page had shown them.

    ``draft`` is the one that the page showed waiting, ``seen`` the revision of the entry. ``shows`` is the
    draft whose values stand in the form instead of the entry's own.
    """

    actor: Any = None
    as_draft: bool = False
    why: str = ""
    seen: int | None = None
    draft: Draft | None = None
    shows: Draft | None = None


class EntryForm(ModelForm[Any]):
    """Writes through a service, whose complaints appear beside the fields they are about."""

    intent: ClassVar[Intent] = Intent()
    # Of kinds that administrators make themselves: the service that writes one.
    service: ClassVar[Callable[..., Any] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """The form; what it shows may be a draft's."""
        if self.intent.shows is not None:
            kwargs["initial"] = {**(kwargs.get("initial") or {}), **_initial(self.intent.shows)}
        super().__init__(*args, **kwargs)
        mark_fields(self.fields, self.instance, self.initial)
        # A new entry begins with what clients call it.
        first = next((name for name in ("uri", "name") if name in self.fields), "")
        if first and self.instance.pk is None:
            self.fields[first].widget.attrs["autofocus"] = True

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # Django's own forms extend the same hook.
        if not self.errors:
            self._write()

    def _write(self) -> None:
        # Browsers end lines with CR LF whatever the text had; that alone must not count as a change.
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
            # The services write nothing that is as it was.
            self.instance.is_as_before = before is not None and before.updated_at == self.instance.updated_at
            return
        intent, row = self.intent, self.stored()
        # What a draft says of fields that this form has not must survive the form.
        before = service_values(intent.shows.values) if intent.shows is not None else {}
        self.instance.saved_draft = save_draft(
            kind=self._meta.model, actor=intent.actor, entry=row, draft=intent.draft, note=intent.why,
            seen=intent.seen, **{**before, **wanted},
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
        """The entry as it is in the database; the form's own instance already carries the new values."""
        if self.instance.pk is None:
            return None
        return self._meta.model._default_manager.get(pk=self.instance.pk)

    def write(self, wanted: dict[str, Any]) -> Entry:
        """Write the entry; an entry whose definition is not ours is only dressed, limited or switched."""
        row = self.stored()
        if row is not None and source_of(row).follows:
            return update_entry(entry=row, **self.said(), **wanted)
        return self.write_own(row, wanted)

    def said(self) -> dict[str, Any]:
        """The actor, the reason and the revision they saw, as the services take them."""
        return {"actor": self.intent.actor, "why": self.intent.why, "seen": self.intent.seen}

    def write_own(self, row: Entry | None, wanted: dict[str, Any]) -> Entry:
        """Write an admin-made entry; ``row`` is None for a new one."""
        if self.service is None:
            raise ValidationError("Entries of this kind are defined in code.")
        return self.service(entry=row, **self.said(), **wanted)

    def save(self, commit: bool = True) -> Entry:
        """The entry that validation has written."""
        return self.instance

    def save_m2m(self) -> None:
        """An entry has no many-to-many fields."""


class ToolForm(EntryForm):
    """A code-defined tool's dress and limits, or a preset."""

    service = staticmethod(save_tool_preset)

    class Meta:
        model = Tool
        fields = "__all__"


class PromptForm(EntryForm):
    """A code-defined prompt's dress, or a prompt made here."""

    service = staticmethod(save_prompt)

    class Meta:
        model = Prompt
        fields = "__all__"


class ResourceForm(EntryForm):
    """A code-defined resource's dress, or a text or file kept here."""

    service = staticmethod(save_resource)

    class Meta:
        model = Resource
        fields = "__all__"


def _initial(draft: Draft) -> dict[str, Any]:
    """A draft's values as a form shows them; an upload cannot be shown again."""
    values = {name: value for name, value in draft.values.items() if name != "file"}
    if "preset_of" in values:
        values["preset_of"] = (
            Tool.objects.filter(name=values["preset_of"]).values_list("pk", flat=True).first()
        )
    return values
