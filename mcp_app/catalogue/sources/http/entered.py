"""The short form of a plan, as people write it: one address with ``{placeholders}``, headers and a body.

A query value or a header is either text or one placeholder. In a JSON body, a text that is one placeholder
becomes the value of the argument, with its type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.sources.http.plan import PLACEHOLDER, RequestPlan, is_leaf

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?")
_WHOLE: Final = re.compile(r"\{([A-Za-z0-9_.\-]{1,100})\}")
# Members of a plan that the short form has no field for; they are kept as they are.
_KEPT: Final = ("idempotency_key", "pages", "operation", "document", "aliases")


class EnteredError(ValueError):
    """A field of the short form that cannot be read. ``field`` names it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class Entered:
    """The request part of the short form."""

    method: str = "GET"
    address: str = ""
    headers: str = ""
    body_mode: str = "none"
    body: str = ""
    content_type: str = ""

    def plan(self) -> dict[str, Any]:
        """Return the request part of a plan as JSON. Raises EnteredError."""
        match = _ADDRESS.fullmatch(self.address.strip())
        if match is None:
            raise EnteredError(
                "address", "Enter a complete URL, such as https://api.example.com/v1/orders/{id}."
            )
        origin, path, query = match[1], match[2] or "/", match[3] or ""
        fixed, parameters = _query(query)
        names = PLACEHOLDER.findall(path)
        parameters = [{"argument": name, "in": "path"} for name in dict.fromkeys(names)] + parameters
        headers, more = _headers(self.headers)
        found: dict[str, Any] = {
            "origin": origin,
            "method": self.method,
            "path": path + (f"?{fixed}" if fixed else ""),
            "parameters": parameters + more,
        }
        if headers:
            found["headers"] = headers
        if self.body_mode != "none":
            found["body"] = self._body()
        return found

    def _body(self) -> dict[str, Any]:
        found: dict[str, Any] = {"mode": self.body_mode}
        if self.content_type:
            found["content_type"] = self.content_type
        text = self.body.strip()
        if self.body_mode in ("text", "raw"):
            whole = _WHOLE.fullmatch(text)
            return {**found, **({"argument": whole[1]} if whole else {"template": self.body})}
        if whole := _WHOLE.fullmatch(text):
            return {**found, "argument": whole[1]}
        try:
            value = json.loads(text or "{}")
        except (ValueError, RecursionError) as error:
            where = (
                f" (line {error.lineno}, column {error.colno})"
                if isinstance(error, json.JSONDecodeError)
                else ""
            )
            raise EnteredError(
                "body", f'Not valid JSON{where}. Write placeholders in quotes: "{{note}}".'
            ) from None
        return {**found, "template": _template(value)}


def _query(text: str) -> tuple[str, list[dict[str, Any]]]:
    fixed, parameters = [], []
    for pair in filter(None, text.split("&")):
        name, mark, value = pair.partition("=")
        if whole := _WHOLE.fullmatch(value):
            wire = unquote(name.replace("+", " "))
            parameters.append(
                {"argument": whole[1], "in": "query", **({"name": wire} if wire != whole[1] else {})}
            )
        elif PLACEHOLDER.search(pair):
            raise EnteredError("address", f"{pair}: a query value is either text or one {{placeholder}}.")
        else:
            fixed.append(pair if mark else name)
    return "&".join(fixed), parameters


def _headers(text: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    fixed: dict[str, str] = {}
    parameters: list[dict[str, Any]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, mark, value = (part.strip() for part in line.partition(":"))
        if not mark:
            raise EnteredError("headers", f"{line[:40]}: write each header as Name: value.")
        if whole := _WHOLE.fullmatch(value):
            parameters.append({"argument": whole[1], "in": "header", "name": name})
        elif PLACEHOLDER.search(value):
            raise EnteredError("headers", f"{name}: a header is either text or one {{placeholder}}.")
        else:
            fixed[name] = value
    return fixed, parameters


def _template(value: Any) -> Any:
    if isinstance(value, str) and (whole := _WHOLE.fullmatch(value)):
        return {"$argument": whole[1]}
    if isinstance(value, dict) and not is_leaf(value):
        return {name: _template(member) for name, member in value.items()}
    return [_template(item) for item in value] if isinstance(value, list) else value


def entered_of(request: Mapping[str, Any]) -> Entered | None:
    """Return the short form of a stored plan, or None if the short form cannot express the plan."""
    try:
        plan = RequestPlan.read(request)
        found = _shown(plan, request)
        short = found.plan()
        short["parameters"] += [{"argument": name, "in": "cookie"} for name in cookies_of(plan)]
        again = RequestPlan.read({**request, "body": None, "headers": None, **short})
    except (DefinitionError, EnteredError, TypeError, ValueError):
        return None
    return found if again == plan else None


def cookies_of(plan: RequestPlan) -> list[str]:
    """Return the arguments that are sent as cookies of the same name."""
    return [
        each.argument for each in plan.parameters if each.place == "cookie" and each.name == each.argument
    ]


def _shown(plan: RequestPlan, request: Mapping[str, Any]) -> Entered:
    path, _, fixed = plan.path.partition("?")
    pairs = [fixed] if fixed else []
    pairs += [f"{quote(each.name)}={{{each.argument}}}" for each in plan.parameters if each.place == "query"]
    query = "?" + "&".join(pairs) if pairs else ""
    headers = [f"{name}: {value}" for name, value in plan.headers]
    headers += [f"{each.name}: {{{each.argument}}}" for each in plan.parameters if each.place == "header"]
    body = plan.body
    if body.argument:
        text = f"{{{body.argument}}}"
    elif body.mode in ("text", "raw"):
        text = body.template if isinstance(body.template, str) else ""
    else:
        text = (
            ""
            if body.mode == "none"
            else json.dumps(_untemplated(body.template), indent=2, ensure_ascii=False)
        )
    return Entered(
        plan.method, f"{plan.origin}{path}{query}", "\n".join(headers), body.mode, text, body.content_type
    )


def _untemplated(template: Any) -> Any:
    if is_leaf(template) and set(template) == {"$argument"}:
        return f"{{{template['$argument']}}}"
    if isinstance(template, Mapping) and not is_leaf(template):
        return {name: _untemplated(member) for name, member in template.items()}
    return [_untemplated(item) for item in template] if isinstance(template, list) else template


def kept_members(request: Any) -> dict[str, Any]:
    """Return the members of a stored plan for which the short form has no field."""
    return {name: request[name] for name in _KEPT if isinstance(request, Mapping) and name in request}
