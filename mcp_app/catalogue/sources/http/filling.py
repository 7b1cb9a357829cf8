"""The filling of a plan: arguments become a request, and can change nothing but their own places.

Path and query values are percent-encoded, values in JSON bodies stay values, and headers refuse line breaks.
After filling, the path is checked for segments that a server could read as another path.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.sources.http import styles
from mcp_app.catalogue.sources.http.plan import PLACEHOLDER, Body, Parameter, RequestPlan, is_leaf
from mcp_app.egress import Request

MAX_HEADER: Final = 4_096
MAX_BODY: Final = 8 * 1024 * 1024
# A server, a proxy and a framework may each decode a path once more.
_MAX_DECODINGS: Final = 8
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_PARTS: Final = re.compile(r"[/\\;]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_USUAL_TYPES: Final = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "text": "text/plain; charset=utf-8",
    "raw": "application/octet-stream",
}
_ABSENT: Final = object()


class UnfitArgument(ToolError):
    """An argument that cannot be sent in its place. The text names the argument."""


def filled(plan: RequestPlan, arguments: Mapping[str, Any], *, idempotency_key: str = "") -> Request:
    """Return the request for some arguments. Raises UnfitArgument, before anything is sent.

    Null and missing arguments without a default are left out, except in the path.
    """
    given = {each.argument: each.default for each in plan.parameters if each.default is not None}
    given |= {name: value for name, value in arguments.items() if value is not None}
    url = plan.origin + _path(plan, given) + _query(plan, given)
    headers = [*plan.headers, *_headers(plan, given)]
    body = _body(plan.body, given)
    if body is not None:
        content_type, data = body
        if not any(name.lower() == "content-type" for name, _ in headers):
            headers.append(("Content-Type", content_type))
        if len(data) > MAX_BODY:
            raise UnfitArgument(f"The request's body has {len(data)} bytes, at most {MAX_BODY} are sent.")
    elif plan.method in ("POST", "PUT", "PATCH"):
        body = ("", b"")
    if plan.idempotency_key and idempotency_key:
        headers.append(("Idempotency-Key", idempotency_key))
    return Request(plan.method, url, tuple(headers), None if body is None else body[1])


def with_wire_names(arguments: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments with the names that the server knows, at any depth."""
    if not aliases:
        return dict(arguments)
    inner = {name: _renamed(value, aliases) for name, value in arguments.items()}
    return {**inner, **{wire: inner[alias] for alias, wire in aliases.items() if alias in inner}}


def _renamed(value: Any, aliases: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed(each, aliases) for each in value]
    if isinstance(value, dict):
        return {aliases.get(name, name): _renamed(each, aliases) for name, each in value.items()}
    return value


def _at(plan: RequestPlan, place: str) -> Iterator[Parameter]:
    return (each for each in plan.parameters if each.place == place)


def _path(plan: RequestPlan, given: Mapping[str, Any]) -> str:
    template = plan.path.partition("?")[0]
    values: dict[str, str] = {}
    for each in _at(plan, "path"):
        if each.argument not in given:
            raise UnfitArgument(f"{each.argument}: expected a value, because it is part of the address.")
        value = given[each.argument]
        if each.content:
            value = styles.json_text(value)
        values[each.name] = styles.path_text(value, each.style, each.explode, each.name)
    path = PLACEHOLDER.sub(lambda match: values[match[1]], template)
    _check_path(plan, template, path)
    return path


def _check_path(plan: RequestPlan, template: str, path: str) -> None:
    """Refuse a path in which an argument could make a server read another path."""
    wanted, found = template.split("/"), path.split("/")
    if len(wanted) != len(found):
        raise UnfitArgument(_refusal(plan, "would add a segment to the address"))
    for before, after in zip(wanted, found, strict=True):
        if before == after:
            continue
        if not after:
            raise UnfitArgument(_refusal(plan, "is empty, but it is part of the address"))
        decoded = _decoded(after)
        if "." in decoded and any(part in (".", "..") for part in _PARTS.split(decoded)):
            raise UnfitArgument(_refusal(plan, "must not be . or .. in the address"))
        if _CONTROL.search(decoded):
            raise UnfitArgument(_refusal(plan, "has a control character"))


def _decoded(text: str) -> str:
    for _ in range(_MAX_DECODINGS):
        after = unquote(text, errors="replace")
        if after == text:
            return text
        text = after
    return text


def _refusal(plan: RequestPlan, problem: str) -> str:
    return f"{', '.join(each.argument for each in _at(plan, 'path'))}: the value {problem}."


def _query(plan: RequestPlan, given: Mapping[str, Any]) -> str:
    fixed = plan.fixed_query
    pairs = [fixed] if fixed else []
    taken = {unquote_plus(pair.partition("=")[0]) for pair in fixed.split("&")}
    taken |= {each.name for each in _at(plan, "query")}
    for each in _at(plan, "query"):
        if each.argument not in given:
            continue
        value = given[each.argument]
        if each.content:
            value = styles.json_text(value)
        own = styles.query_pairs(each.name, value, each.style, each.explode, each.allow_reserved)
        _check_names(each.argument, own, taken - {each.name})
        pairs += own
    return "?" + "&".join(pairs) if pairs else ""


def _check_names(argument: str, pairs: list[str], taken: set[str]) -> None:
    """Refuse a member of an exploded object that would replace another part of the request."""
    for pair in pairs:
        if (name := unquote(pair.partition("=")[0])) in taken:
            raise UnfitArgument(f"{argument}: the member {name[:100]!r} is another part of the request.")


def _headers(plan: RequestPlan, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each in _at(plan, "header"):
        if each.argument in given:
            value = given[each.argument]
            text = styles.json_text(value) if each.content else styles.header_text(value, each.explode)
            if text or isinstance(value, str):
                yield each.name, _header_value(each.argument, text)
    cookies: list[str] = []
    taken = {each.name for each in _at(plan, "cookie")}
    for each in _at(plan, "cookie"):
        if each.argument in given:
            own = styles.cookie_pairs(each.name, given[each.argument], each.explode)
            _check_names(each.argument, own, taken - {each.name})
            cookies += own
    if cookies:
        yield "Cookie", _header_value("cookies", "; ".join(cookies))


def _header_value(argument: str, text: str) -> str:
    if not _HEADER_VALUE.fullmatch(text) or text != text.strip():
        raise UnfitArgument(f"{argument}: a header holds ASCII text without line breaks only.")
    if len(text) > MAX_HEADER:
        raise UnfitArgument(f"{argument}: a header has at most {MAX_HEADER} characters.")
    return text


def _body(body: Body, given: Mapping[str, Any]) -> tuple[str, bytes] | None:
    if body.mode == "none":
        return None
    value = given.get(body.argument, _ABSENT) if body.argument else filled_template(body.template, given)
    if value is _ABSENT:
        return None
    if body.mode == "multipart":
        return _multipart(_fields(value), body)
    content_type = body.content_type or _USUAL_TYPES[body.mode]
    if body.mode == "json":
        return content_type, styles.json_text(value).encode("utf-8", "replace")
    if body.mode == "form":
        return content_type, styles.form_body(_fields(value), body.encoding)
    if body.encoding.get("", {}).get("base64"):
        return content_type, _decoded_file(body.argument, value)
    return content_type, (value if isinstance(value, str) else styles.json_text(value)).encode(
        "utf-8", "replace"
    )


def _decoded_file(name: str, value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise UnfitArgument(f"{name}: expected the bytes of a file in base64.") from None


def _fields(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UnfitArgument("The body must be an object, because it is sent as a form.")
    return value


def filled_template(template: Any, given: Mapping[str, Any]) -> Any:
    """Return a template with the values of its arguments. Members without a value are left out."""
    found = _filled(template, given)
    return {} if found is _ABSENT and isinstance(template, Mapping) and not is_leaf(template) else found


def _filled(template: Any, given: Mapping[str, Any]) -> Any:
    if is_leaf(template):
        return given.get(template["$argument"], template.get("default", _ABSENT))
    if isinstance(template, Mapping):
        members = ((name, _filled(member, given)) for name, member in template.items())
        return {name: member for name, member in members if member is not _ABSENT}
    if isinstance(template, list):
        return [item for item in (_filled(each, given) for each in template) if item is not _ABSENT]
    return template


def _multipart(fields: Mapping[str, Any], body: Body) -> tuple[str, bytes]:
    boundary = secrets.token_hex(16)
    parts: list[bytes] = []
    for name, value in fields.items():
        rule = body.encoding.get(name, {})
        for item in value if isinstance(value, list) else [value]:
            if item is None:
                continue
            usual = "application/json" if isinstance(item, (dict, list)) else ""
            if rule.get("base64"):
                usual = _USUAL_TYPES["raw"]
            kind = str(rule.get("contentType") or usual)
            if _CONTROL.search(kind):
                raise UnfitArgument(f"{name}: the content type has a control character.")
            head = f'Content-Disposition: form-data; name="{_quoted(name)}"'
            if filename := rule.get("filename"):
                head += f'; filename="{_quoted(str(filename))}"'
            head += f"\r\nContent-Type: {kind}" if kind else ""
            if rule.get("base64"):
                content = _decoded_file(name, item)
            else:
                content = styles.text_of(item).encode("utf-8", "replace")
            parts.append(b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary.encode(), head.encode(), content))
    parts.append(b"--%b--\r\n" % boundary.encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(parts)


def _quoted(name: str) -> str:
    # As browsers write names (HTML, section 4.10.22.8).
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")
