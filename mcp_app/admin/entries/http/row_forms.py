"""Arguments of an HTTP tool as rows of a form."""

from __future__ import annotations

from typing import Any, Final

from django import forms

from mcp_app.admin.base import Select
from mcp_app.catalogue.sources.http.rows import KINDS, PLACES, Row

PREFIX: Final = "rows"
MOST: Final = 200
_KINDS: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
}


def _text(label: str, example: str = "", **more: Any) -> forms.CharField:
    widget = forms.TextInput({"class": "mcp-input", "spellcheck": "false", "placeholder": example})
    return forms.CharField(label=label, required=False, widget=widget, **{"max_length": 2_000, **more})


class RowForm(forms.Form):
    """An argument. Rows whose placeholder is written have no place to choose."""

    name = forms.RegexField(
        r"^[A-Za-z0-9_.\-]{1,100}\Z",
        label="Name",
        required=False,
        widget=forms.TextInput({"class": "mcp-input", "spellcheck": "false"}),
        error_messages={"invalid": "Use letters, digits, _, . and - only."},
    )
    kind = forms.ChoiceField(
        label="Type",
        choices=[*_KINDS.items(), ("", "other (JSON)")],
        widget=Select(),
        required=False,
        initial="string",
    )
    place = forms.ChoiceField(
        label="Sent in",
        choices=[("", "–"), *((name, name) for name in PLACES)],
        widget=Select(),
        required=False,
    )
    required = forms.BooleanField(label="required", required=False)
    description = _text("Description", "The number of the order.")
    example = _text("Example", "7")
    default = _text("Default")
    found = forms.CharField(required=False, widget=forms.HiddenInput)

    @property
    def is_written(self) -> bool:
        """True if the placeholder of the argument is written in the request."""
        return bool(self["found"].value()) and not self["place"].value()

    def clean(self) -> dict[str, Any]:
        """Require a name for a row with a place."""
        given = super().clean() or {}
        if given.get("place") and not given.get("name") and "name" not in self.errors:
            self.add_error("name", "Enter a name.")
        return given


_Rows: Any = forms.formset_factory(
    RowForm, extra=1, can_delete=True, max_num=MOST, absolute_max=MOST, validate_max=True
)


class RowSet(_Rows):  # type: ignore[misc]  # Made by Django.
    """The rows of a form."""

    def entered(self) -> list[Row]:
        """Return the rows that have a name and are not removed."""
        names = tuple(name for name in Row.__dataclass_fields__)
        given = [form.cleaned_data for form in self.forms if not self._should_delete_form(form)]
        return [Row(**{name: each[name] for name in names}) for each in given if each.get("name")]


def rows_in(data: Any) -> RowSet:
    """Return the rows in posted data, or empty rows if the data has none."""
    if f"{PREFIX}-TOTAL_FORMS" not in data:
        return RowSet(initial=[], prefix=PREFIX)
    return RowSet(data, prefix=PREFIX)


assert tuple(_KINDS) == KINDS
