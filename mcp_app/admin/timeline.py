"""Owns one page of the message log: the filters, paging by key, and rows ready to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from django import forms
from django.db.models import QuerySet
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.models import Message
from mcp_app.protocol.trace_context import TraceContext, read
from mcp_app.templatetags.mcp_text import indented_json, visible_block

PAGE_SIZE = 50
SHOWN_CHARACTERS = 2_000
# More than a logged payload can hold once indented.
LONGEST_SHOWN = 200_000

# Offered as suggestions; any other method can be typed.
METHODS = (
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "resources/subscribe",
    "resources/unsubscribe",
    "completion/complete",
    "logging/setLevel",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/message",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
)

_EQUALS = ("session", "method", "target", "request_id", "direction", "outcome")


class TimelineForm(forms.Form):
    """What the log can be narrowed by; every field may be left empty."""

    session = forms.CharField(required=False, max_length=64)
    method = forms.CharField(required=False, max_length=120)
    target = forms.CharField(required=False, max_length=200, label="Tool, prompt or resource")
    request_id = forms.CharField(required=False, max_length=120, label="Request id")
    direction = forms.ChoiceField(required=False, choices=[("", "both"), *Message.Direction.choices])
    outcome = forms.ChoiceField(required=False, choices=[("", "any"), *Message.Outcome.choices])
    since = forms.DateTimeField(required=False, label="From (UTC)")
    until = forms.DateTimeField(required=False, label="To (UTC)")
    order = forms.ChoiceField(required=False, choices=[("", "newest first"), ("oldest", "oldest first")])
    before = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1, widget=forms.HiddenInput)
    after = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("since", "until"):
            self.fields[name].widget = forms.DateTimeInput(
                attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S"
            )
        self.fields["method"].widget.attrs["list"] = "mcp-methods"
        for field in self.fields.values():
            field.widget.attrs["class"] = "mcp-input"


@dataclass(frozen=True, slots=True)
class Pane:
    """One payload as shown: escaped, indented, cut."""

    html: SafeString
    characters: int
    cut: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One message with its request and answer ready to stand side by side."""

    message: Message
    request: Pane | None
    answer: Pane | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """One page of messages and the queries of the pages beside it."""

    form: TimelineForm
    rows: list[Row]
    newest_first: bool
    newer: str | None
    older: str | None
    filtered: bool


def pane(text: str, limit: int) -> Pane | None:
    """``text`` for a ``pre``, at most ``limit`` characters of it; None when there is none."""
    if not text:
        return None
    shown = indented_json(text, limit + 1)
    return Pane(visible_block(shown[:limit]), len(text), len(shown) > limit or len(text) > limit)


def trace_of(text: str) -> TraceContext | None:
    """The trace that a logged request names in its ``_meta``; None also when its text was cut."""
    try:
        message = orjson.loads(text)
    except ValueError:
        return None
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return read(meta) if isinstance(meta, dict) else None


def row(message: Message, limit: int = SHOWN_CHARACTERS) -> Row:
    """A message with both panes cut at ``limit`` characters."""
    return Row(message, pane(message.payload, limit), pane(message.answer, limit))


def timeline(messages: QuerySet[Message], query: Any, *, size: int = PAGE_SIZE) -> Timeline:
    """The page that ``query`` (a QueryDict) asks for; unusable filters give no rows and the form's errors."""
    form = TimelineForm(query)
    if not form.is_valid():
        return Timeline(form, [], newest_first=True, newer=None, older=None, filtered=True)
    asked = form.cleaned_data
    newest_first = asked["order"] != "oldest"
    found, has_newer, has_older = _page(
        _narrowed(messages, asked), asked["before"], asked["after"], newest_first=newest_first, size=size
    )
    kept = {name: query[name] for name in form.fields if name not in ("before", "after") and query.get(name)}
    return Timeline(
        form,
        [row(message) for message in (reversed(found) if newest_first else found)],
        newest_first,
        newer=urlencode({**kept, "after": found[-1].pk}) if found and has_newer else None,
        older=urlencode({**kept, "before": found[0].pk}) if found and has_older else None,
        filtered=bool(kept.keys() - {"order"}),
    )


def _narrowed(messages: QuerySet[Message], asked: dict[str, Any]) -> QuerySet[Message]:
    messages = messages.filter(**{name: asked[name] for name in _EQUALS if asked[name]})
    if asked["since"]:
        messages = messages.filter(at__gte=asked["since"])
    if asked["until"]:
        messages = messages.filter(at__lte=asked["until"])
    return messages


def _page(
    messages: QuerySet[Message], before: int | None, after: int | None, *, newest_first: bool, size: int
) -> tuple[list[Message], bool, bool]:
    """Up to ``size`` messages in ascending order, and whether there are newer and older ones.

    Pages by key: an offset would read and drop every earlier row of a log with millions.
    """
    if before is not None:
        messages = messages.filter(pk__lt=before)
    if after is not None:
        messages = messages.filter(pk__gt=after)
    upwards = after is not None or (before is None and not newest_first)
    found = list(messages.order_by("pk" if upwards else "-pk")[: size + 1])
    more = len(found) > size
    found = found[:size]
    if upwards:
        return found, more, after is not None
    found.reverse()
    return found, before is not None, more
