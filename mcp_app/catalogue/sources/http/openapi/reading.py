"""Reading of OpenAPI documents from bytes, within bounds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

import orjson

from mcp_app.catalogue.sources.http.openapi import swagger2, yaml_values

MIB: Final = 1024 * 1024
MAX_BYTES: Final = 32 * MIB
MAX_DEPTH: Final = 200
MAX_OPERATIONS: Final = 50_000
METHODS: Final = ("get", "head", "post", "put", "patch", "delete", "options", "trace")
_VERSION: Final = re.compile(r"3\.[012](\.\d+)?(-[\w.]+)?")
_INDEX: Final = re.compile(r"[0-9]{1,9}")
_TEXTS: Final = ("utf-8-sig", "utf-16")
# Members of other formats that people mistake for OpenAPI, with the name of the format.
_OTHERS: Final = {
    "asyncapi": "an AsyncAPI document, which describes messages",
    "swaggerVersion": "a Swagger 1 document: export it as OpenAPI 3 or Swagger 2.0",
    "discoveryVersion": "a Google discovery document",
    "overlay": "an OpenAPI overlay: apply it first, then import the result",
    "arazzo": "an Arazzo document, which describes workflows",
    "__schema": "a GraphQL schema",
    "$schema": "a JSON Schema",
    "log": "a HAR file: use *New HTTP tool* for one of its requests",
    "item": "a Postman collection: export it as OpenAPI",
}


class DocumentError(ValueError):
    """An unusable document. The text is one sentence with the reason and, where there is one, the remedy."""


@dataclass(frozen=True, slots=True)
class Place:
    """An operation in a document. ``item`` is the path item, which has parameters and servers as well."""

    method: str
    path: str
    operation: Mapping[str, Any]
    item: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The stable name of the operation within its document: ``GET /orders/{id}``."""
        return f"{self.method} {self.path}"

    @property
    def pointer(self) -> str:
        """The JSON pointer to the operation."""
        return f"#/paths/{escaped(self.path)}/{self.method.lower()}"


@dataclass(frozen=True)
class Document:
    """A document in the form of OpenAPI 3. ``url`` is its address, or empty for an upload.

    ``others`` are the documents that it refers to, by address.
    """

    root: Mapping[str, Any]
    version: str
    url: str
    sha256: str
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def places(self) -> dict[str, Place]:
        """The operations by key, in the order of the document."""
        return {place.key: place for place in _places(self)}

    @cached_property
    def title(self) -> str:
        """The title of the API."""
        info = self.root.get("info")
        title = info.get("title") if isinstance(info, dict) else ""
        return " ".join(str(title or "").split())[:200]

    def find(self, pointer: str) -> Any:
        """Return the value at a reference such as ``#/components/schemas/Order``. Raises KeyError."""
        address, _, fragment = pointer.partition("#")
        found: Any = self.root if not address else self.others[address]
        for part in fragment.split("/")[1:]:
            name = _unescaped(part)
            if isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise KeyError(pointer)
        return found

    def solved(self, value: Any) -> Any:
        """Return ``value``, or the target of its reference. Raises KeyError for a missing or endless one."""
        followed: set[str] = set()
        while isinstance(value, dict) and isinstance(reference := value.get("$ref"), str):
            if reference in followed:
                raise KeyError(reference)
            followed.add(reference)
            value = self.find(reference)
        return value


def read(data: bytes, url: str = "") -> Document:
    """Read a document as JSON or YAML. Raises DocumentError."""
    root = parsed(data)
    version = _version(root)
    if not isinstance(root.get("paths", {}), dict):
        raise DocumentError("'paths' of this document is not an object, so it has no operations.")
    root = swagger2.upgraded(root) if version == "2.0" else root
    document = Document(root, version, url, hashlib.sha256(data).hexdigest())
    if not document.places:
        raise DocumentError("This document has no operations: its 'paths' are empty.")
    if len(document.places) > MAX_OPERATIONS:
        raise DocumentError(
            f"This document has {len(document.places)} operations; at most {MAX_OPERATIONS} are read."
        )
    return document


def parsed(data: bytes) -> dict[str, Any]:
    """Return the object in a JSON or YAML file. Raises DocumentError."""
    if len(data) > MAX_BYTES:
        raise too_large(len(data))
    text = _decoded(data).strip()
    if not text:
        raise DocumentError("The document is empty.")
    if text.startswith("<"):
        raise DocumentError(
            "This is a web page or XML, not an OpenAPI document: look there for a link to openapi.json or "
            "openapi.yaml."
        )
    value = _json(text) if text.startswith(("{", "[")) else _yaml(text)
    if not isinstance(value, dict):
        raise DocumentError("This is not an OpenAPI document: it is not an object with members.")
    _check_depth(value)
    return value


def too_large(size: int) -> DocumentError:
    """Return the error for a document of ``size`` bytes."""
    return DocumentError(f"The document has {size / MIB:.0f} MiB; at most {MAX_BYTES // MIB} are read.")


def escaped(name: str) -> str:
    """Return a name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _unescaped(part: str) -> str:
    return unquote(part).replace("~1", "/").replace("~0", "~")


def _decoded(data: bytes) -> str:
    encoding = _TEXTS[data[:2] in (b"\xff\xfe", b"\xfe\xff")]
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise DocumentError(f"The document is not UTF-8 text (byte {error.start}).") from error


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        problem = f"{error.msg} (line {error.lineno}, column {error.colno})"
        if not text.startswith("{"):
            raise DocumentError(f"The document is not valid JSON: {problem}.") from error
    try:
        return _yaml(text)  # A YAML document may begin with a brace as well.
    except DocumentError:
        raise DocumentError(f"The document is not valid JSON: {problem}.") from None


def _yaml(text: str) -> Any:
    try:
        return yaml_values.read(text)
    except yaml_values.YamlError as error:
        raise DocumentError(str(error)) from error


def _check_depth(value: Any) -> None:
    pending: list[tuple[Any, int]] = [(value, 1)]
    while pending:
        item, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise DocumentError(f"The document is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(item, dict | list):
            children = item.values() if isinstance(item, dict) else item
            pending += [(child, depth + 1) for child in children if isinstance(child, dict | list)]


def _version(root: Mapping[str, Any]) -> str:
    if "swagger" in root:
        version = str(root["swagger"])
        if version != "2.0":
            raise DocumentError(f"Swagger {version[:20]} is not supported: use Swagger 2.0 or OpenAPI 3.")
        return version
    if "openapi" in root:
        version = str(root["openapi"])
        if not _VERSION.fullmatch(version):
            raise DocumentError(f"OpenAPI {version[:20]} is not supported: use 3.0, 3.1 or Swagger 2.0.")
        return version[:3]
    for member, name in _OTHERS.items():
        if member in root:
            raise DocumentError(f"This is {name}, not an OpenAPI document.")
    raise DocumentError("This is not an OpenAPI document: it has neither 'openapi' nor 'swagger'.")


def _places(document: Document) -> list[Place]:
    found: list[Place] = []
    for path, item in document.root.get("paths", {}).items():
        try:
            item = document.solved(item)  # noqa: PLW2901
        except KeyError:
            continue
        if not isinstance(item, dict) or not str(path).startswith("/"):
            continue
        found += [
            Place(method.upper(), path, item[method], item)
            for method in METHODS
            if isinstance(item.get(method), dict)
        ]
    return found
