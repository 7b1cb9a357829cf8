"""The plan of a request: the checked form of the JSON that a tool stores in its column ``request``.

A plan names the server, and no argument can change it: ``origin`` has no placeholder. ``path`` has
placeholders for segments or parts of them, and may end with a fixed query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from django.core.exceptions import ValidationError

from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.catalogue.sources.http import styles
from mcp_app.catalogue.sources.http.mapping import MappingError, compiled
from mcp_app.catalogue.sources.http.members import choice, error, members_of, number, switch, text
from mcp_app.credentials.kinds import NEVER
from mcp_app.egress import EgressRefused, Policy
from mcp_app.egress.policy import ANY_PORT
from mcp_app.egress.target import read as read_target

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
IDEMPOTENT_METHODS: Final = frozenset({*SAFE_METHODS, "PUT", "DELETE"})
PLACES: Final = ("path", "query", "header", "cookie")
BODY_MODES: Final = ("none", "json", "form", "multipart", "text", "raw")
RESULT_MODES: Final = ("auto", "structured", "text", "file")
PAGE_KINDS: Final = ("link", "cursor", "page", "offset")
MAX_PARAMETERS: Final = 200
MAX_PAGES: Final = 10
MAX_RETRIES: Final = 5
MAX_CACHE_SECONDS: Final = 86_400
MAX_DEPTH: Final = 32
ARGUMENT_LEAF: Final = frozenset({"$argument", "default"})
PLACEHOLDER: Final = re.compile(r"\{([A-Za-z0-9_.\-]{1,100})\}")

# The literal parts of a path: unreserved characters, sub-delimiters, ":", "@" and percent escapes.
_PATH_TEXT: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*")
_QUERY_TEXT: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?\[\]|]|%[0-9A-Fa-f]{2})*")
_DOTS: Final = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?:\Z|/)", re.IGNORECASE)
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]{0,4096}")
_SUCCESS: Final = re.compile(r"\s*(\d{3})(?:\s*-\s*(\d{3}))?\s*")
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]{1,100}/[\w.+*-]{1,100}(;\s*[\w-]+=[\w.\"-]+)*")
# Headers that only a credential sends.
_SECRET_HEADERS: Final = frozenset({"authorization", "cookie"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """The place of one argument in the request. ``name`` is the name that the server knows.

    ``default`` is sent if the argument is missing.
    """

    argument: str
    place: str
    name: str
    style: str = ""
    explode: bool = False
    allow_reserved: bool = False
    content: str = ""
    default: Any = None


@dataclass(frozen=True, slots=True)
class Body:
    """The body of the request. ``template`` is JSON with leaves ``{"$argument": name}``."""

    mode: str = "none"
    content_type: str = ""
    template: Any = None
    argument: str = ""
    encoding: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResultPlan:
    """The reading of the answer. Both mappings are JMESPath expressions, "" for the whole answer."""

    mapping: str = ""
    error_mapping: str = ""
    mode: str = "auto"
    prepend: str = ""
    append: str = ""
    fields: bool = False


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of an answer. ``items`` is the JMESPath of their list, "" if the answer is the list."""

    kind: str
    parameter: str = ""
    token: str = ""
    items: str = ""
    max_pages: int = MAX_PAGES


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """A checked plan."""

    origin: str
    method: str
    path: str
    parameters: tuple[Parameter, ...] = ()
    body: Body = Body()
    headers: tuple[tuple[str, str], ...] = ()
    success: tuple[tuple[int, int], ...] = ((200, 299),)
    result: ResultPlan = ResultPlan()
    credential: str = ""
    timeout: float = 30.0
    retries: int = 0
    idempotent: bool = False
    idempotency_key: bool = False
    cache_seconds: int = 0
    pages: Pages | None = None
    operation: str = ""
    document: Any = None
    aliases: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, json: Any) -> RequestPlan:
        """Return the plan. Raises DefinitionError with the field's name."""
        return _plan(members_of(json, "", _ALL, ("origin", "method", "path")))

    @property
    def fixed_query(self) -> str:
        """The query that is sent with every request, before the arguments."""
        return self.path.partition("?")[2]

    @property
    def is_safe(self) -> bool:
        """True if the request should change nothing on its server."""
        return self.method in SAFE_METHODS

    @property
    def may_repeat(self) -> bool:
        """True if the request may be sent again after its first byte was sent."""
        return self.idempotent or self.method in IDEMPOTENT_METHODS

    def arguments(self) -> tuple[str, ...]:
        """Return the names of all arguments that the plan uses, in order."""
        found = [parameter.argument for parameter in self.parameters]
        if self.body.argument:
            found.append(self.body.argument)
        return tuple(dict.fromkeys([*found, *leaves(self.body.template)]))

    def succeeded(self, status: int) -> bool:
        """Return True if the status is a success."""
        return any(low <= status <= high for low, high in self.success)


_ALL: Final = (
    "origin", "method", "path", "parameters", "body", "headers", "success", "result", "credential", "timeout",
    "retries", "idempotent", "idempotency_key", "cache_seconds", "pages", "operation", "document", "aliases",
)  # fmt: skip


def leaves(template: Any) -> list[str]:
    """Return the arguments in a template, in order."""
    if is_leaf(template):
        return [template["$argument"]]
    if isinstance(template, Mapping):
        return [name for member in template.values() for name in leaves(member)]
    if isinstance(template, list):
        return [name for item in template for name in leaves(item)]
    return []


def is_leaf(template: Any) -> bool:
    """Return True for a leaf that an argument replaces."""
    return isinstance(template, Mapping) and "$argument" in template


def _plan(json: Mapping[str, Any]) -> RequestPlan:
    method = choice(json, "method", METHODS)
    path = _path(text(json, "path", required=True))
    parameters = _parameters(json.get("parameters"), path)
    plan = RequestPlan(
        origin=_origin(text(json, "origin", required=True)),
        method=method,
        path=path,
        parameters=parameters,
        body=_body(json.get("body")),
        headers=_headers(json.get("headers")),
        success=_success(text(json, "success", "200-299")),
        result=_result(json.get("result")),
        credential=text(json, "credential"),
        timeout=number(json, "timeout", 30.0, 0.1, 900.0),
        retries=int(number(json, "retries", 0, 0, MAX_RETRIES, whole=True)),
        idempotent=switch(json, "idempotent"),
        idempotency_key=switch(json, "idempotency_key"),
        cache_seconds=int(number(json, "cache_seconds", 0, 0, MAX_CACHE_SECONDS, whole=True)),
        pages=_pages(json.get("pages")),
        operation=text(json, "operation"),
        document=json.get("document"),
        aliases=_aliases(json.get("aliases")),
    )
    _check_whole(plan)
    return plan


def _check_whole(plan: RequestPlan) -> None:
    if plan.body.mode != "none" and plan.method in ("GET", "HEAD"):
        raise error("body", f"A {plan.method} request has no body.")
    if plan.retries and not (plan.may_repeat or plan.idempotency_key):
        raise error("retries", f"A {plan.method} request is repeated only if it is marked idempotent.")
    if plan.cache_seconds and not plan.is_safe:
        raise error("cache_seconds", f"The answer of a {plan.method} request is not cached.")
    if plan.pages and plan.method != "GET":
        raise error("pages", "Only a GET request has pages.")
    named = {name.lower() for name, _ in plan.headers}
    for parameter in plan.parameters:
        if parameter.place == "header" and parameter.name.lower() in named:
            raise error("parameters", f"The header {parameter.name} is also a fixed header.")


def _origin(text: str) -> str:
    if "{" in text or "}" in text:
        raise error("origin", "The host cannot contain a placeholder.")
    try:
        target = read_target(text, Policy(ports=ANY_PORT))
    except EgressRefused as refused:
        raise error("origin", str(refused)) from None
    if target.path not in ("", "/") or "?" in text or "#" in text:
        raise error("origin", f"Give scheme and host only, such as {target.origin}.")
    return target.origin


def _path(text: str) -> str:
    path, mark, query = text.partition("?")
    if not path.startswith("/"):
        raise error("path", "Begins with /, such as /v1/orders/{id}.")
    literal = PLACEHOLDER.sub("x", path)
    if not _PATH_TEXT.fullmatch(literal):
        raise error("path", "Has a character that a path cannot hold: percent-encode it.")
    if _DOTS.search(path) or _DOTS.search(literal):
        raise error("path", "Must not have . or .. as a segment.")
    if mark and (not query or not _QUERY_TEXT.fullmatch(query)):
        raise error("path", "A fixed query has no placeholders: use parameters for arguments.")
    names = PLACEHOLDER.findall(path)
    if len(set(names)) < len(names):
        raise error("path", "Has the same placeholder twice.")
    return text


def _parameters(json: Any, path: str) -> tuple[Parameter, ...]:
    if json is None:
        json = []
    if not isinstance(json, list) or len(json) > MAX_PARAMETERS:
        raise error("parameters", f"Must be a list of at most {MAX_PARAMETERS}.")
    found = tuple(_parameter(each, f"parameters[{index}]") for index, each in enumerate(json))
    seen: set[tuple[str, str]] = set()
    for each in found:
        name = each.name.lower() if each.place == "header" else each.name
        if (each.place, name) in seen:
            raise error("parameters", f"The {each.place} parameter {each.name!r} occurs twice.")
        seen.add((each.place, name))
    wanted = set(PLACEHOLDER.findall(path.partition("?")[0]))
    given = {each.name for each in found if each.place == "path"}
    if missing := sorted(wanted - given):
        raise error("parameters", f"The placeholder {{{missing[0]}}} of the path has no parameter.")
    if unknown := sorted(given - wanted):
        raise error("parameters", f"The path has no placeholder {{{unknown[0]}}}.")
    return found


_PARAMETER: Final = ("argument", "in", "name", "style", "explode", "allow_reserved", "content", "default")


def _parameter(json: Any, where: str) -> Parameter:
    members = members_of(json, where, _PARAMETER, ("argument", "in"))
    argument = text(members, "argument", where=where, required=True)
    place = choice(members, "in", PLACES, where=where)
    name = text(members, "name", argument, where=where, required=True)
    usual = next(iter(styles.STYLES[place]))
    style = text(members, "style", usual, where=where) or usual
    explode = switch(members, "explode", style in ("form", "deepObject"), where)
    if problem := styles.unsupported(place, style, explode, ""):
        raise error(f"{where}.style", f"{problem}.")
    if place == "header" and (problem := _objection_to_name(name)):
        raise error(f"{where}.name", problem)
    if place == "cookie" and not _HEADER.fullmatch(name):
        raise error(f"{where}.name", "A cookie name has letters, digits and - only.")
    allow_reserved = switch(members, "allow_reserved", where=where)
    content, default = text(members, "content", where=where), members.get("default")
    if place == "path" and default is not None:
        raise error(f"{where}.default", "An argument of the path is required, so it has no default.")
    return Parameter(argument, place, name, style, explode, allow_reserved, content, default)


def _objection_to_name(name: str) -> str:
    if not _HEADER.fullmatch(name):
        return "A header name has letters, digits and - only."
    if name.lower() in _SECRET_HEADERS:
        return f"Only a credential sends the header {name}."
    return f"The header {name} cannot be set." if NEVER.fullmatch(name) else ""


def _headers(json: Any) -> tuple[tuple[str, str], ...]:
    if json is None:
        return ()
    if not isinstance(json, Mapping) or len(json) > 50:
        raise error("headers", "Must be an object of at most 50 names and values.")
    for name, value in json.items():
        if problem := _objection_to_name(str(name)):
            raise error("headers", problem)
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value) or value != value.strip():
            raise error(f"headers.{name}", "Must be ASCII text without line breaks, at most 4096 characters.")
    if len({name.lower() for name in json}) < len(json):
        raise error("headers", "A header occurs twice.")
    return tuple(json.items())


def _body(json: Any) -> Body:
    if json is None:
        return Body()
    members = members_of(json, "body", ("mode", "content_type", "template", "argument", "encoding"))
    mode = choice(members, "mode", BODY_MODES, "none", "body")
    content_type = text(members, "content_type", where="body")
    if content_type and not _MEDIA_TYPE.fullmatch(content_type):
        raise error("body.content_type", "A content type looks like application/json.")
    template, argument = members.get("template"), text(members, "argument", where="body")
    _check_template(template, "body.template", 0)
    _check_storable(template, "body.template")
    if mode == "none" and (template not in (None, {}) or argument):
        raise error("body.mode", "A body with a template needs a mode, such as json.")
    if mode in ("form", "multipart") and not argument and not isinstance(template, Mapping):
        raise error("body.template", "A form is an object of fields.")
    if mode in ("text", "raw") and not argument and not (isinstance(template, str) or is_leaf(template)):
        raise error("body.argument", "Name the argument that is the body.")
    encoding = members.get("encoding") or {}
    if not isinstance(encoding, Mapping) or not all(isinstance(each, Mapping) for each in encoding.values()):
        raise error("body.encoding", "Must be an object of objects.")
    return Body(mode, content_type, template, argument, encoding)


def _check_template(template: Any, where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise error(where, f"Nested more than {MAX_DEPTH} levels deep.")
    if is_leaf(template):
        if set(template) - ARGUMENT_LEAF or not isinstance(template["$argument"], str):
            raise error(where, 'An argument is written {"$argument": "name"}, with "default" if wanted.')
    elif isinstance(template, Mapping):
        for name, member in template.items():
            _check_template(member, f"{where}.{name}", depth + 1)
    elif isinstance(template, list):
        for index, item in enumerate(template):
            _check_template(item, f"{where}[{index}]", depth + 1)


def _check_storable(value: Any, where: str) -> None:
    try:
        check_storable(value)
        orjson.dumps(value)
    except ValidationError as refused:
        raise error(where, refused.messages[0]) from None
    except TypeError:
        raise error(where, "Has an integer of more than 64 bits.") from None


def _success(text: str) -> tuple[tuple[int, int], ...]:
    found = []
    for part in text.split(","):
        match = _SUCCESS.fullmatch(part)
        if match is None:
            raise error("success", "Write statuses such as 200-299 or 200, 404.")
        low = int(match[1])
        found.append((low, int(match[2] or low)))
    return tuple(found)


def _result(json: Any) -> ResultPlan:
    if json is None:
        return ResultPlan()
    known = ("mapping", "error_mapping", "mode", "prepend", "append", "fields")
    members = members_of(json, "result", known)
    texts = {name: text(members, name, where="result") for name in known[:2] + known[3:5]}
    for name in ("mapping", "error_mapping"):
        _check_expression(texts[name], f"result.{name}")
    mode = choice(members, "mode", RESULT_MODES, "auto", "result")
    return ResultPlan(**texts, mode=mode, fields=switch(members, "fields", where="result"))


def _check_expression(text: str, where: str) -> None:
    try:
        compiled(text)
    except MappingError as wrong:
        raise error(where, str(wrong)) from None


def _pages(json: Any) -> Pages | None:
    if json is None:
        return None
    members = members_of(json, "pages", ("kind", "parameter", "token", "items", "max_pages"), ("kind",))
    kind = choice(members, "kind", PAGE_KINDS, where="pages")
    texts = {name: text(members, name, where="pages") for name in ("parameter", "token", "items")}
    for name in ("token", "items"):
        _check_expression(texts[name], f"pages.{name}")
    if kind != "link" and not texts["parameter"]:
        raise error("pages.parameter", "Name the query parameter that selects a page.")
    if kind == "cursor" and not texts["token"]:
        raise error("pages.token", "Write the JMESPath of the next page's token.")
    most = int(number(members, "max_pages", MAX_PAGES, 1, MAX_PAGES, whole=True, where="pages"))
    return Pages(kind, **texts, max_pages=most)


def _aliases(json: Any) -> Mapping[str, str]:
    if json is None:
        return {}
    if not isinstance(json, Mapping) or not all(isinstance(each, str) for each in json.values()):
        raise error("aliases", "Must be an object of names.")
    return dict(json)
