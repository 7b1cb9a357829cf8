"""Arguments and request body of an operation, from its ``requestBody``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_app.catalogue.sources.http import styles
from mcp_app.catalogue.sources.http.openapi.faults import Note, Unconvertible
from mcp_app.catalogue.sources.http.openapi.parameters import kind_of
from mcp_app.catalogue.sources.http.openapi.reading import Document, Place, escaped

FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
WHOLE: Final = "body"
_COMPOSED: Final = ("allOf", "anyOf", "oneOf", "not", "if")
_BASE64: Final = {"type": "string", "contentEncoding": "base64"}


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a body that becomes an argument, with its schema as in the document."""

    name: str
    pointer: str
    schema: Any
    required: bool


@dataclass(frozen=True, slots=True)
class Body:
    """A body: its mode and type, and either its members or, as ``whole``, a single argument."""

    mode: str
    content_type: str
    members: tuple[Member, ...] = ()
    whole: Member | None = None
    encoding: Mapping[str, Any] = field(default_factory=dict)

    def wire(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Return the body as part of a request plan. ``arguments`` are those of its members by name."""
        found: dict[str, Any] = {"mode": self.mode, "content_type": self.content_type}
        if self.mode == "text":
            return {**found, "argument": arguments[WHOLE]}
        if self.mode == "raw":
            return {**found, "argument": arguments[WHOLE], "encoding": {"": {"base64": True}}}
        template = {each.name: {"$argument": arguments[each.name]} for each in self.members}
        found["template"] = {"$argument": arguments[WHOLE]} if self.whole is not None else template
        return {**found, "encoding": dict(self.encoding)} if self.encoding else found


def body_of(document: Document, place: Place, notes: list[Note], wanted: str = "") -> Body | None:
    """Return the body of an operation, or None. Raises Unconvertible.

    ``wanted`` is the content type to send, if the operation has it.
    """
    pointer = f"{place.pointer}/requestBody"
    given = place.operation.get("requestBody")
    if given is None:
        return None
    try:
        solved = document.solved(given)
    except KeyError as error:
        raise Unconvertible(pointer, f"The reference {error.args[0][:200]!r} leads nowhere") from None
    content = solved.get("content") if isinstance(solved, dict) else None
    if not isinstance(content, dict) or not content:
        return None
    kind = chosen(content, wanted)
    if len(content) > 1:
        notes.append(Note(pointer, f"The body is sent as {kind[:100]}, one of {', '.join(content)[:300]}"))
    media = content[kind] if isinstance(content[kind], dict) else {}
    if place.method in ("GET", "HEAD", "TRACE"):
        schema = media.get("schema")
        if not isinstance(schema, dict) or schema.get("properties") != {}:
            notes.append(Note(pointer, f"A {place.method} request has no body: it is not sent"))
        return None
    home = f"{given.get('$ref', pointer)}/content/{escaped(kind)}"
    required = solved.get("required") is True
    return _body(document, kind, media, f"{home}/schema", required, notes)


def chosen(content: Mapping[str, Any], wanted: str = "") -> str:
    """Return the content type to send: JSON before forms before text before anything else.

    ``wanted`` comes first, if it is among them.
    """
    if found := [kind for kind in content if wanted and _plain(kind) == _plain(wanted)]:
        return found[0]
    return min(content, key=lambda kind: (_rank(_plain(kind)), [*content].index(kind)))


def _body(
    document: Document, kind: str, media: Mapping[str, Any], pointer: str, required: bool, notes: list[Note]
) -> Body:
    plain, schema = _plain(kind), media.get("schema", {})
    if _is_json(plain):
        sent = "application/json" if "*" in plain else kind
        members = _members(document, schema, pointer, required, notes)
        if members is not None:
            return Body("json", sent, members)
        return Body("json", sent, whole=Member(WHOLE, pointer, schema, required))
    if plain in (FORM, MULTIPART):
        mode = "form" if plain == FORM else "multipart"
        members = _members(document, schema, pointer, required, notes)
        if members is None:
            raise Unconvertible(pointer, "A form whose fields are not listed cannot be sent")
        encoding = _encoding(document, members, media.get("encoding"), mode, pointer)
        return Body(mode, plain, members, encoding=encoding)
    if plain.startswith("text/") or plain.endswith(("xml", "yaml", "javascript", "graphql", "+text")):
        text = {"type": "string", "description": f"The body as {plain}"}
        return Body("text", plain, whole=Member(WHOLE, pointer, text, required))
    data = {**_BASE64, "description": f"The body as {plain}, in base64"}
    sent = "application/octet-stream" if "*" in plain else plain
    return Body("raw", sent, whole=Member(WHOLE, pointer, data, required))


def _members(
    document: Document, schema: Any, pointer: str, required: bool, notes: list[Note]
) -> tuple[Member, ...] | None:
    """Return the members of a plain object, or None if the body has to be a single argument."""
    followed = 0
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        pointer, followed = schema["$ref"], followed + 1
        try:
            schema = document.find(pointer)
        except KeyError:
            return None
        if followed > 50:
            return None
    if not isinstance(schema, dict) or not isinstance(properties := schema.get("properties"), dict):
        return None
    if schema.get("type", "object") != "object" or schema.get("additionalProperties") not in (None, False):
        return None
    if schema.get("nullable") is True or "patternProperties" in schema:
        return None
    for keyword in _COMPOSED:
        if keyword in schema:
            if not _only_requires(schema[keyword]):
                return None
            notes.append(
                Note(f"{pointer}/{keyword}", f"{keyword!r} of the arguments is checked by the API only")
            )
    needed = listed if isinstance(listed := schema.get("required"), list) else []
    return tuple(
        Member(name, f"{pointer}/properties/{escaped(name)}", each, required and name in needed)
        for name, each in properties.items()
        if not (isinstance(each, dict) and each.get("readOnly") is True)
    )


def _only_requires(branches: Any) -> bool:
    """Return True for alternatives that only list required members."""
    listed = branches if isinstance(branches, list) else [branches]
    return all(isinstance(each, dict) and each.keys() <= {"required"} for each in listed)


def _encoding(
    document: Document, members: tuple[Member, ...], given: Any, mode: str, pointer: str
) -> dict[str, Any]:
    """Return how fields are sent, for the fields that differ from the default."""
    found: dict[str, Any] = {}
    rules = given if isinstance(given, dict) else {}
    for member in members:
        rule = rules.get(member.name)
        rule = rule if isinstance(rule, dict) else {}
        one: dict[str, Any] = {}
        if mode == "multipart" and _has_files(document, member.schema):
            one |= {"base64": True, "filename": member.name[:100]}
        if isinstance(kind := rule.get("contentType"), str):
            one["contentType"] = kind.partition(",")[0].strip()
        if mode == "form" and rule.keys() & {"style", "explode"}:
            style = str(rule.get("style") or "form")
            explode = rule.get("explode")
            one["style"] = style
            one["explode"] = explode if isinstance(explode, bool) else style in ("form", "deepObject")
            if style != "deepObject" and (
                reason := styles.unsupported("query", style, one["explode"], kind_of(document, member.schema))
            ):
                raise Unconvertible(pointer, f"The field {member.name[:100]!r} cannot be sent: {reason}")
        if one:
            found[member.name] = one
    return found


def _has_files(document: Document, schema: Any) -> bool:
    """Return True for a field that holds a file, or a list of files."""
    try:
        solved = document.solved(schema)
        items = document.solved(solved.get("items")) if isinstance(solved, dict) else None
    except KeyError:
        return False
    return _is_file(solved) or _is_file(items)


def _is_file(schema: Any) -> bool:
    if not isinstance(schema, dict) or schema.get("type") not in ("string", "file", None):
        return False
    return (
        schema.get("format") == "binary"
        or schema.get("type") == "file"
        or ("contentMediaType" in schema and "contentEncoding" not in schema)
    )


def _plain(kind: str) -> str:
    return kind.partition(";")[0].strip().lower()


def _is_json(plain: str) -> bool:
    return plain in ("application/json", "*/*", "application/*") or plain.endswith(("+json", "/json"))


def _rank(plain: str) -> int:
    if plain == "application/json":
        return 0
    if _is_json(plain):
        return 1 if "*" not in plain else 5
    if plain in (FORM, MULTIPART):
        return 2
    return 3 if plain.startswith("text/") else 4
