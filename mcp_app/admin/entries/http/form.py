"""The form of an HTTP tool: one address with placeholders in place of the parts of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError

from mcp_app.admin.base import Select, Textarea
from mcp_app.admin.entries.http.row_forms import PREFIX, RowSet, rows_in
from mcp_app.admin.widgets import JsonField, PermissionField
from mcp_app.catalogue.changes import row_checks
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.schemas.strict_json import parse_json
from mcp_app.catalogue.sources.http.arguments import schema_of
from mcp_app.catalogue.sources.http.entered import Entered, EnteredError, entered_of, kept_members
from mcp_app.catalogue.sources.http.plan import BODY_MODES, METHODS, RESULT_MODES, RequestPlan
from mcp_app.catalogue.sources.http.proposed import proposed_name
from mcp_app.catalogue.sources.http.rows import (
    Row,
    placed,
    rows_of,
    with_defaults,
    with_rows,
    without_defaults,
)
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.credentials.services import USE
from mcp_app.models import Credential, Tool

_MODES: Final = {
    "none": "no body",
    "json": "JSON",
    "form": "form fields",
    "multipart": "form fields, multipart",
    "text": "text",
    "raw": "other",
}
_RESULTS: Final = {
    "auto": "by its content type",
    "structured": "JSON",
    "text": "text",
    "file": "file",
}
REQUEST_FIELDS: Final = ("method", "address", "headers", "body_mode", "body", "content_type")


def _line(label: str, example: str, **more: Any) -> forms.CharField:
    widget = forms.TextInput({"class": "mcp-input", "spellcheck": "false", "placeholder": example})
    return forms.CharField(label=label, required=False, widget=widget, **{"max_length": 4_096, **more})


def _area(label: str, rows: int, example: str = "", **more: Any) -> forms.CharField:
    widget = Textarea({"rows": rows, "spellcheck": "false", "placeholder": example})
    return forms.CharField(label=label, required=False, widget=widget, strip=False, **more)


def _choice(label: str, choices: list[tuple[str, str]], **more: Any) -> forms.ChoiceField:
    return forms.ChoiceField(label=label, choices=choices, widget=Select(), **more)


class _OptionalJson(JsonField):
    """A JSON value that may be missing. A missing value is shown as an empty field."""

    def prepare_value(self, value: Any) -> str:
        return "" if value is None else super().prepare_value(value)


class HttpToolForm(forms.Form):
    """The entered values of an HTTP tool. A service stores ``plan`` and ``values``."""

    paste = _area("curl command, or entry of a HAR file", 4, "curl https://api.example.com/v1/orders/7")
    as_arguments = forms.BooleanField(
        required=False,
        initial=True,
        label="Turn values into arguments",
        help_text="Values of the query and of a JSON body become arguments, with these values as defaults. "
        "Numbers in a JSON body become number arguments. Values of the query become text.",
    )
    method = _choice("Method", [(name, name) for name in METHODS])
    address = _line(
        "URL",
        "https://api.example.com/v1/orders/{id}?status={status}",
        help_text="Each {placeholder} is an argument of the tool. The host cannot contain one.",
    )
    credential = _choice("Credential", [], required=False)
    headers = _area(
        "Headers", 2, "Accept: application/json", help_text="One per line. A value can be a {placeholder}."
    )
    body_mode = _choice("Body", [(name, _MODES[name]) for name in BODY_MODES])
    body = _area(
        "Body content",
        5,
        '{"note": "{note}", "source": "mcp"}',
        help_text='"{note}" stands for the value of the argument note. '
        "If the body is only {note}, this value is the whole body.",
    )
    content_type = _line(
        "Content type", "text/csv", max_length=100, help_text="Empty: the default for this body."
    )
    input_schema = _OptionalJson(
        shape=dict,
        required=False,
        label="Input schema",
        help_text="Made from the arguments above. Once you change it, it replaces them.",
    )
    schema_seen = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)
    mapping = _line(
        "Mapping",
        "orders[].{id: id, total: sum.amount}",
        help_text="JMESPath that selects from the response. Empty: the whole response.",
    )
    error_mapping = _line(
        "Error mapping", "error.message", help_text="JMESPath that selects the message of an error response."
    )
    success = _line("Success status codes", "200-299, 404", help_text="Other status codes count as errors.")
    mode = _choice("Read as", [(name, _RESULTS[name]) for name in RESULT_MODES])
    prepend = _line("Text before the result", "Amounts are in cents.")
    append = _line("Text after the result", "Use order_notes to read the notes.")
    fields_argument = forms.BooleanField(
        required=False,
        label="Add the argument “fields”",
        help_text="With it, models choose fields of the result.",
    )
    output_schema = _OptionalJson(
        shape=None,
        required=False,
        label="Output schema",
        help_text="Optional. A result that does not match it is an error.",
    )
    timeout = forms.FloatField(
        label="Timeout",
        initial=30,
        min_value=0.1,
        max_value=900,
        help_text="In seconds, for all retries and pages of a call together.",
    )
    retries = forms.IntegerField(
        label="Retries",
        initial=0,
        min_value=0,
        max_value=5,
        help_text="How many, after the status codes 429, 502, 503 and 504.",
    )
    idempotent = forms.BooleanField(
        required=False,
        label="Retry POST and PATCH",
        help_text="Select it only if repeating the request is harmless.",
    )
    cache_seconds = forms.IntegerField(
        label="Cache",
        initial=0,
        min_value=0,
        max_value=86_400,
        help_text="Seconds to keep responses of GET requests.",
    )
    name = _line("Name", "get_order", max_length=128, help_text="Clients call the tool by this name.")
    description = _area("Description", 3, help_text="Explains to models when and how to use it.")
    arguments = JsonField(shape=dict, required=False, label="Test arguments")
    tried = forms.CharField(required=False, widget=forms.HiddenInput)
    seen = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, *args: Any, user: Any, entry: Tool | None = None, row: Tool | None = None, **kwargs: Any
    ) -> None:
        """Take the stored tool as ``entry``. ``row`` has the values that are changed, such as a draft's."""
        super().__init__(*args, **kwargs)
        self.entry = entry
        self.row = row
        self.rows = rows_in(self.data) if self.is_bound else RowSet(initial=[], prefix=PREFIX)
        # A test needs no name, so the form itself requires neither field.
        for name in ("address", "name"):
            self.fields[name].widget.attrs["aria-required"] = "true"
        credential: Any = self.fields["credential"]
        credential.choices = [("", "none"), *_credentials(user, row)]
        permission = PermissionField(
            current=row.permission if row else "",
            label="Who can use it",
            help_text="Users without access do not see the tool.",
        )
        self.fields["permission"] = permission
        if entry is not None:
            self.fields["name"].disabled = True

    def entered_rows(self) -> list[Row]:
        """Return the entered rows."""
        return self.rows.entered() if self.rows.is_bound else []

    def schema(self, plan: RequestPlan) -> dict[str, Any]:
        """Return the input schema: that of the rows, unless its JSON was changed. Raises EnteredError."""
        known = self.cleaned_data.get("input_schema")
        found = schema_of(plan, known if isinstance(known, dict) else None)
        return found if self.is_json_changed else schema_of(plan, with_rows(found, self.entered_rows()))

    @property
    def is_json_changed(self) -> bool:
        """True if the JSON of the input schema differs from the JSON that the form was shown with."""
        seen, given = self.cleaned_data.get("schema_seen"), self.cleaned_data.get("input_schema")
        try:
            return ((parse_json(seen) if seen else None) or None) != (given or None)
        except ValidationError:
            return True

    def show(self, plan: RequestPlan, schema: Mapping[str, Any], named: Mapping[str, str]) -> list[Row]:
        """Show this schema, and its arguments as rows. Return the rows."""
        found = rows_of(plan, schema, named)
        self.rows = RowSet(initial=[asdict(row) for row in found], prefix=PREFIX)
        text = json.dumps(schema, indent=2, ensure_ascii=False)
        if self.is_bound:
            data: Any = self.data.copy()  # type: ignore[attr-defined]  # A QueryDict.
            data["input_schema"] = data["schema_seen"] = text
            self.data = data
        else:
            self.initial = {**self.initial, "input_schema": schema, "schema_seen": text}
        return found

    def request_json(self) -> dict[str, Any]:
        """Return the plan as JSON. Raises EnteredError for a field that cannot be read."""
        given = self.cleaned_data
        entered = Entered(**{name: given.get(name) or "" for name in REQUEST_FIELDS})
        found = {**kept_members(self.row.request if self.row else None), **entered.plan()}
        found = placed(found, self.entered_rows())
        result = {name: given.get(name) or "" for name in ("mapping", "error_mapping", "prepend", "append")}
        result = {name: value for name, value in result.items() if value}
        if given.get("mode", "auto") != "auto":
            result["mode"] = given["mode"]
        if given.get("fields_argument"):
            result["fields"] = True
        optional = {
            "result": result,
            "credential": given.get("credential"),
            "success": given.get("success"),
            "retries": given.get("retries"),
            "idempotent": given.get("idempotent"),
            "cache_seconds": given.get("cache_seconds"),
        }
        found |= {name: value for name, value in optional.items() if value}
        if given.get("timeout") not in (None, 30):
            found["timeout"] = given["timeout"]
        return found

    def read(self) -> tuple[RequestPlan, dict[str, Any]] | None:
        """Return the plan and its JSON, or None if the form has errors. Errors stand beside their fields."""
        is_valid = self.is_valid()
        if self.rows.is_bound and not self.rows.is_valid():
            self.add_error(None, "Correct the rows of the arguments.")
            return None
        if not is_valid:
            return None
        try:
            found = self.request_json()
            found = with_defaults(found, self.schema(RequestPlan.read(found)))
            return RequestPlan.read(found), found
        except EnteredError as error:
            self.add_error(error.field if error.field in self.fields else None, str(error))
        except DefinitionError as error:
            self.complain({"request": [str(error)]})
        return None

    def require_name(self) -> None:
        """Add an error to an empty name. Only a saved tool needs a name."""
        if self.entry is None and not self.cleaned_data.get("name") and "name" not in self.errors:
            self.add_error("name", "This field is required.")

    def values(self, plan: RequestPlan, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the entry for a service."""
        given = self.cleaned_data
        own = {} if self.entry is not None else {"name": given["name"]}
        return {
            **own,
            "request": dict(request),
            "input_schema": self.schema(plan),
            "output_schema": given.get("output_schema") or None,
            "description": (given.get("description") or "").replace("\r\n", "\n"),
            "permission": given.get("permission") or "",
        }

    def check(self, values: Mapping[str, Any]) -> None:
        """Show the errors of a new tool without storing it."""
        if self.entry is not None:
            return
        try:
            row_checks.check(HTTP.new(Tool, **values))
        except ValidationError as error:
            self.complain(messages_of(error))

    def complain(self, errors: Mapping[str, list[str]]) -> None:
        """Show a service's errors beside the fields of this form."""
        for name, texts in errors.items():
            for text in texts:
                field, shown = self._place(name, text)
                self.add_error(field if field in self.fields else None, shown)

    def _place(self, name: str, text: str) -> tuple[str, str]:
        if name != "request":
            return name, text
        member, mark, rest = text.partition(": ")
        first = member.partition(".")[2] if member.startswith("result.") else member.partition(".")[0]
        first = first.partition("[")[0]
        place = {"origin": "address", "path": "address", "parameters": "address", "fields": "fields_argument"}
        place |= dict.fromkeys(("template", "argument"), "body")
        field = place.get(first, first)
        return (field, rest) if mark and field in self.fields else ("address", text)


def _credentials(user: Any, row: Tool | None) -> list[tuple[str, str]]:
    """Return the credentials that the user may use, and the one that the tool has."""
    if user.has_perm(USE):
        return [(row.name, f"{row.name} ({row.origin_list})") for row in Credential.objects.order_by("name")]
    present = (row.request or {}).get("credential", "") if row is not None else ""
    return [(present, present)] if present else []


def initial_of(row: Tool) -> dict[str, Any] | None:
    """Return the values of the form for a stored tool, or None if the form cannot show its request."""
    request = without_defaults(row.request or {}, row.input_schema or {})
    entered = entered_of(request)
    if entered is None:
        return None
    result = request.get("result") or {}
    return {
        **{name: getattr(entered, name) for name in REQUEST_FIELDS},
        **{name: result.get(name, "") for name in ("mapping", "error_mapping", "prepend", "append")},
        "mode": result.get("mode", "auto"),
        "fields_argument": result.get("fields", False),
        "credential": request.get("credential", ""),
        "success": request.get("success", ""),
        "timeout": request.get("timeout", 30),
        "retries": request.get("retries", 0),
        "idempotent": request.get("idempotent", False),
        "cache_seconds": request.get("cache_seconds", 0),
        "name": row.name,
        "description": row.description,
        "permission": row.permission,
        "input_schema": row.input_schema,
        "output_schema": row.output_schema,
        "arguments": {},
    }


def filled_in(pasted: Entered, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return initial values: those of the pasted request, and what was typed into the other fields.

    Without a typed name, one is proposed.
    """
    entered = {name: getattr(pasted, name) for name in REQUEST_FIELDS} | {"name": proposed_name(pasted)}
    kept = {name: given[name] for name in ("name", "description") if given.get(name)}
    return {**entered, **kept, "timeout": 30, "retries": 0, "cache_seconds": 0, "arguments": {}}


def messages_of(error: ValidationError) -> dict[str, list[str]]:
    """Return the messages of a service by field."""
    return error.message_dict if hasattr(error, "error_dict") else {"__all__": error.messages}
