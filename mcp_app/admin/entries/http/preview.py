"""The preview of an HTTP tool: its request with example values, and its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import quote

from mcp_app.admin.entries.http.form import HttpToolForm
from mcp_app.catalogue.sources.http.filling import UnfitArgument, filled
from mcp_app.catalogue.sources.http.plan import RequestPlan
from mcp_app.catalogue.sources.http.rows import kind_of, named_places

# The longest part of a body that a page shows.
SHOWN_BYTES: Final = 64 * 1024


def preview_of(form: HttpToolForm, read: tuple[RequestPlan, dict[str, Any]] | None) -> dict[str, Any]:
    """Return the request as it will be sent, with example values, and its arguments.

    The form then shows a row for each argument.
    """
    if read is None:
        problems = [
            f"{form.fields[name].label or name if name in form.fields else name}: {text}"
            for name, texts in form.errors.items()
            for text in texts
        ]
        return {"problem": problems[0] if problems else "", "request": "", "arguments": []}
    plan, given, is_json = read[0], form.cleaned_data.get("arguments") or {}, form.is_json_changed
    schema = form.schema(plan)
    rows = form.show(plan, schema, named_places(form.entered_rows()))
    properties = schema["properties"]
    values = {
        name: given.get(name, example_of(properties.get(name), f"{{{name}}}")) for name in plan.arguments()
    }
    shown = {
        "arguments": list(plan.arguments()),
        "rows": [asdict(row) for row in rows],
        "schema": form["input_schema"].value(),
        "json": is_json,
    }
    try:
        request = filled(plan, values)
    except UnfitArgument as error:
        return {**shown, "problem": str(error), "request": ""}
    text = request_text(request.method, request.url, request.headers, request.body)
    head, gap, body = text.partition("\n\n")
    for name in plan.arguments():
        if name not in given:
            # Arguments without a value are shown as in the form, not percent-encoded.
            head = head.replace(quote(f"{{{name}}}", safe=""), f"{{{name}}}")
    if plan.credential:
        head += f"\n(credential {plan.credential})"
    return {**shown, "problem": "", "request": head + gap + body}


def example_of(prop: Any, text: str) -> Any:
    """Return a value of an argument: its example, its default, a value of its type, or else ``text``."""
    if not isinstance(prop, Mapping):
        return text
    examples = prop.get("examples")
    if isinstance(examples, list) and examples:
        return examples[0]
    return prop["default"] if "default" in prop else _OF_TYPE.get(kind_of(prop), text)


_OF_TYPE: Final[Mapping[str, Any]] = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def request_text(method: str, url: str, headers: Any, body: bytes | None) -> str:
    """Return a request as text, with the beginning of its body."""
    lines = [f"{method} {url}", *(f"{name}: {value}" for name, value in headers)]
    return "\n".join(lines) + (f"\n\n{cut(body)}" if body else "")


def cut(body: bytes) -> str:
    """Return the beginning of a body as text, and the number of bytes that are left out."""
    text = body[:SHOWN_BYTES].decode("utf-8", "replace")
    return f"{text}\n… {len(body) - SHOWN_BYTES} bytes more" if len(body) > SHOWN_BYTES else text
