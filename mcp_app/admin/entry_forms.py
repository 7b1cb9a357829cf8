"""Owns the forms of catalogue entries; the last step of validation is the service that writes the entry."""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import transaction

from mcp_app.admin.base import ModelForm
from mcp_app.catalogue.services import save_prompt, save_resource, save_tool_preset, update_entry
from mcp_app.models import Prompt, Resource, Source, Tool

Entry = Any


class EntryForm(ModelForm[Any]):
    """Writes through a service, whose complaints appear beside the fields they are about."""

    actor: Any = None
    changes: ClassVar[frozenset[str]] = frozenset()

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # Django's own forms extend the same hook.
        if not self.errors:
            self._write()

    def _write(self) -> None:
        try:
            with transaction.atomic():
                self.instance = self.write(dict(self.cleaned_data))
        except ValidationError as error:
            self._complain(error)

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
        if row is not None and row.source != Source.ADMIN:
            return update_entry(entry=row, actor=self.actor, **wanted)
        return self.write_own(row, wanted)

    def write_own(self, row: Entry | None, wanted: dict[str, Any]) -> Entry:
        """Write an admin-made entry; ``row`` is None for a new one."""
        raise ValidationError("Entries of this kind are defined in code.")

    def save(self, commit: bool = True) -> Entry:
        """The entry that validation has written."""
        return self.instance

    def save_m2m(self) -> None:
        """An entry has no many-to-many fields."""


class ToolForm(EntryForm):
    """A code-defined tool's dress and limits, or a preset."""

    class Meta:
        model = Tool
        fields = "__all__"

    def write_own(self, row: Any, wanted: dict[str, Any]) -> Any:
        """Write a preset."""
        return save_tool_preset(entry=row, actor=self.actor, **wanted)


class PromptForm(EntryForm):
    """A code-defined prompt's dress, or a prompt made here."""

    class Meta:
        model = Prompt
        fields = "__all__"

    def write_own(self, row: Any, wanted: dict[str, Any]) -> Any:
        """Write a prompt."""
        return save_prompt(entry=row, actor=self.actor, **wanted)


class ResourceForm(EntryForm):
    """A code-defined resource's dress, or a text or file kept here."""

    class Meta:
        model = Resource
        fields = "__all__"

    def write_own(self, row: Any, wanted: dict[str, Any]) -> Any:
        """Write a text or file resource."""
        return save_resource(entry=row, actor=self.actor, **wanted)
