"""The form of the log's filters, and the search that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from django import forms

from mcp_app.admin.log.renderer import FieldRenderer
from mcp_app.admin.markup import in_utc, written
from mcp_app.message_log.pages import ANSWERED, FAILED, TEXT_WINDOW
from mcp_app.message_log.search.language import LONGEST, parse, term_of
from mcp_app.message_log.search.times import NotATime, begin_of, end_of
from mcp_app.models import Message

# Form fields that are collapsed because they are rarely used. Each also has a key in the search language.
FOLDED: Final = (
    "method", "client", "since", "until", "session", "request_id", "direction", "text", "order",
)  # fmt: skip
NO_TIME: Final = "A time is such as 2026-11-23 14:05, 14:05, today or 2h (ago)."
# Maps form fields to keys of the search language.
TERMS: Final = {
    "session": "session", "method": "method", "target": "target", "request_id": "id", "principal": "user",
    "direction": "dir", "client": "client", "outcome": "status", "since": "since", "until": "until",
}  # fmt: skip
# The fields whose label is their placeholder, because they are in the row of the search.
IN_ROW: Final = ("target", "principal")
# Placeholders for labels that are too long for their input.
SHORT: Final = {"target": "Tool, prompt, URI"}


class ZonedField(forms.Field):
    """A form field for a time in the search language. Times without a zone are in the page's time zone."""

    def __init__(self, label: str, read: Callable[[str], datetime]) -> None:
        attributes = {"placeholder": "2026-11-23 14:05 or 2h", "autocomplete": "off"}
        super().__init__(required=False, label=label, widget=forms.TextInput(attributes))
        self.read = read

    def to_python(self, value: Any) -> datetime | None:
        text = str(value or "").strip()
        try:
            return self.read(text) if text else None
        except NotATime:
            raise forms.ValidationError(NO_TIME, code="invalid") from None

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return the date and time that the entered text means. Return other text unchanged."""
        try:
            found = self.to_python(data)
            return written(found) if found else data
        except (forms.ValidationError, OverflowError):
            return data


class TimelineForm(forms.Form):
    """The filters of the log. All of them are optional."""

    default_renderer = FieldRenderer

    q = forms.CharField(
        required=False, max_length=LONGEST, label="Search", widget=forms.TextInput({"type": "search"})
    )
    session = forms.CharField(required=False, max_length=64)
    method = forms.CharField(required=False, max_length=120)
    target = forms.CharField(required=False, max_length=200, label="Tool, prompt or resource")
    request_id = forms.CharField(required=False, max_length=120, label="Request id")
    principal = forms.CharField(required=False, max_length=120, label="User")
    direction = forms.ChoiceField(
        required=False, choices=[("", "All directions"), *Message.Direction.choices]
    )
    client = forms.CharField(required=False, max_length=200)
    outcome = forms.ChoiceField(
        required=False,
        label="Status",
        choices=[
            ("", "Any status"),
            (ANSWERED, "finished"),
            (FAILED, "failed"),
            *Message.Outcome.choices,
        ],
    )
    since = ZonedField("From", begin_of)
    until = ZonedField("To", end_of)
    text = forms.CharField(required=False, max_length=200, label="Words in request or response")
    order = forms.ChoiceField(required=False, choices=[("", "Newest first"), ("oldest", "Oldest first")])
    before = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1, widget=forms.HiddenInput)
    after = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["method"].widget.attrs["list"] = "mcp-methods"
        self.fields["q"].widget.attrs["placeholder"] = "tool:echo status:failed ms:>5000"
        self.fields["text"].widget.attrs["placeholder"] = f"searches {TEXT_WINDOW:,} messages at a time"
        self.fields["q"].widget.attrs["id"] = "mcp-search"
        for name, shown in self.fields.items():
            shown.widget.attrs["class"] = "mcp-input"
            if name in (*TERMS, "text"):
                # The live log adds the value to its search.
                shown.widget.attrs["data-term"] = TERMS.get(name, name)
            if name in IN_ROW:
                shown.widget.attrs["placeholder"] = SHORT.get(name, shown.label)
            if name in self.errors:
                shown.widget.attrs["aria-describedby"] = "mcp-filter-problems"

    def clean_q(self) -> str:
        """Parse the search and report its problems. The search language is the same as in the console."""
        text: str = self.cleaned_data["q"]
        search = parse(text)
        if search.problems:
            raise forms.ValidationError(list(search.problems))
        self.cleaned_data["search"] = search if search.terms else None
        return text


def in_one_search(asked: dict[str, Any]) -> str:
    """Return the filters of the form combined into one search text."""
    terms = [asked["q"].strip(), "status:failed" if asked["outcome"] == FAILED else ""]
    for name, key in TERMS.items():
        value = asked[name]
        if isinstance(value, datetime):
            value = in_utc(value)
        terms.append(term_of(key, value or ""))
    terms += [f'"{words}"' for words in asked["text"].split('"') if words.strip()]
    return " ".join(term for term in terms if term)
