"""The form of a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from mcp_app.admin.base import Select
from mcp_app.admin.limits.names import list_of, offered_names
from mcp_app.limits import exemptions, services
from mcp_app.models import LimitRule

_TEXT = {"class": "mcp-input", "autocomplete": "off", "spellcheck": "false"}
# Fields in the row of the field before them.
_BESIDE: Final = frozenset(
    {"who_value", "what_value", "rate_period", "burst", "budget_unit", "budget_period"}
)
_MODE: Final = (
    "Enforced: calls above the numbers below are refused. Only counted: they run, and the page of the limit "
    "shows how many would have been refused."
)
# Fields that a link to the form may fill in.
_LINKED: Final = ("name", "who", "who_value", "what", "what_value")


def _help(name: str) -> str:
    field: Any = LimitRule._meta.get_field(name)
    return str(field.help_text)


def _choice(label: str, name: str, help_text: str = "") -> forms.ChoiceField:
    field: Any = LimitRule._meta.get_field(name)
    return forms.ChoiceField(
        label=label, choices=field.choices, initial=field.default, widget=Select(), help_text=help_text
    )


def _number(label: str, help_text: str = "") -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        required=False,
        min_value=1,
        error_messages={"min_value": "Enter 1 or more."},
        widget=forms.NumberInput({"class": "mcp-input"}),
        help_text=help_text,
    )


class LimitForm(forms.Form):
    """The callers, tools and amounts of a limit. A stored limit keeps its name."""

    name = forms.CharField(max_length=64, widget=forms.TextInput(_TEXT), help_text=_help("name"))
    who = _choice("Callers", "who")
    who_value = forms.CharField(
        label="Name or number",
        required=False,
        max_length=150,
        widget=forms.TextInput(_TEXT),
        help_text="Type the name of a user, group, API key or OAuth client and choose it, or enter a "
        "network. Keys and clients appear here by their number. Enter * to limit each user, key, client or "
        "address separately.",
    )
    exempt = forms.CharField(
        label="Except",
        required=False,
        max_length=10_000,
        widget=forms.Textarea({**_TEXT, "rows": 2, "placeholder": "user:ada\ngroup:Operators"}),
        help_text="Users, groups and API keys that are not limited. One per line: user:name, group:name or "
        "key:number.",
    )
    what = _choice("Tools", "what")
    what_value = forms.CharField(
        label="Tool, tag or toolset",
        required=False,
        max_length=200,
        widget=forms.TextInput(_TEXT),
        help_text=_help("what_value"),
    )
    mode = _choice("Mode", "mode", _MODE)
    rate = _number("Rate", "Calls in one period, on average.")
    rate_period = _choice("Rate per", "rate_period")
    burst = _number("Burst", _help("burst"))
    concurrent = _number("Concurrent calls", "Calls that run at the same time.")
    budget = _number("Budget", "An exact total for each calendar period, in UTC.")
    budget_unit = _choice(
        "Budget of", "budget_unit", "Cost units: each tool sets its own under Execution; 1 unless set."
    )
    budget_period = _choice("Budget per", "budget_period")
    enabled = forms.BooleanField(required=False, initial=True, help_text="Off: the limit has no effect.")

    def __init__(self, request: HttpRequest, row: LimitRule | None = None) -> None:
        initial = _linked(request) if row is None else _initial(row)
        super().__init__(request.POST if request.method == "POST" else None, initial=initial)
        self._row, self._actor = row, request.user
        if row is not None:
            del self.fields["name"]
        self.offered = offered_names(request.user)
        if key := list_of(str(self["who"].value()), self.offered):
            self.fields["who_value"].widget.attrs["list"] = f"mcp-names-{key}"

    def rows(self) -> Iterator[list[forms.BoundField]]:
        """Yield the fields, those of one row together."""
        row = 0
        numbered = [(row := row + (field.name not in _BESIDE), field) for field in self]
        for _, fields in groupby(numbered, lambda each: each[0]):
            yield [field for _, field in fields]

    def clean_exempt(self) -> list[str]:
        """Return the exempt callers of all lines."""
        return [line for line in self.cleaned_data["exempt"].splitlines() if line.strip()]

    def stored(self) -> LimitRule | None:
        """Return the stored limit. If it is refused, add the errors and return None."""
        return self._checked(
            lambda given, _: services.save_rule(
                actor=self._actor, rule=self._row, name=self.cleaned_data.get("name"), **given
            )
        )

    def draft(self) -> LimitRule | None:
        """Return the limit without storing it. If it is not valid, add the errors and return None."""
        return self._checked(lambda _, built: built)

    def _built(self, given: dict[str, Any]) -> LimitRule:
        name = self._row.name if self._row is not None else self.cleaned_data.get("name", "")
        exempt, errors = list[str](), dict[str, list[str]]()
        try:
            exempt = exemptions.stored(given["exempt"] or ())
        except ValidationError as error:
            errors = error.message_dict
        pk = self._row.pk if self._row is not None else None
        row = LimitRule(name=name, pk=pk, **{**given, "exempt": exempt})
        # A stored limit may keep its name.
        row._state.adding = row.pk is None
        try:
            services.check(row)
        except ValidationError as error:
            errors |= error.message_dict
        if errors:
            raise ValidationError(errors)
        return row

    def _checked(self, finish: Callable[[dict[str, Any], LimitRule], LimitRule]) -> LimitRule | None:
        is_valid = self.is_valid()
        given = {name: self.cleaned_data.get(name) for name in services.FIELDS}
        try:
            # All errors are shown at once, also those that the form itself does not find.
            built = self._built(given)
            return finish(given, built) if is_valid else None
        except ValidationError as error:
            for field, problems in error.message_dict.items():
                if field not in self.errors:
                    self.add_error(field if field in self.fields else None, problems)
            return None


def _initial(row: LimitRule) -> dict[str, Any]:
    state = services.state_of(row)
    return {**state, "who_value": row.who_name, "exempt": "\n".join(state["exempt"])}


def _linked(request: HttpRequest) -> dict[str, Any]:
    """Return the valid values from the address of a link. Each is checked by its field."""
    found = {}
    for name in _LINKED:
        field = LimitForm.base_fields[name]
        try:
            value = field.clean(request.GET.get(name, ""))
        except ValidationError:
            continue
        if value:
            found[name] = value
    return found
