"""Content classes that tools, prompts and resources may return. Each class builds its content block.

Blocks have the form of revision 2025-11-25. The protocol package converts them for other revisions.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from mcp_app.protocol.messages.media import MODEL_AUDIO, MODEL_IMAGES, check_file, checked_type

Block = dict[str, Any]
Role = Literal["user", "assistant"]


class ToolError(Exception):
    """A failure of a tool. The model is shown the text, which must not contain internal details."""


class CannotAsk(ToolError):
    """Raised if the client did not declare the capability that a question needs.

    Catch the error if the tool can continue without an answer. If the tool does not catch it, clients of
    revision 2026-07-28 receive an error that lists the needed capabilities.
    """

    def __init__(self, text: str, needed: tuple[str, ...] = ()) -> None:
        """Initialize the error. ``needed`` are names of capabilities, as ``Client.can`` takes them."""
        super().__init__(text)
        self.needed = needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Hints on one content block (TOOL-15): audience, importance (0..1), time of last change."""

    audience: Sequence[Role] = ()
    priority: float | None = None
    last_modified: str = ""

    def to_wire(self) -> dict[str, Any]:
        """Return the non-empty members under their wire names."""
        wire: dict[str, Any] = {}
        if self.audience:
            wire["audience"] = list(self.audience)
        if self.priority is not None:
            wire["priority"] = self.priority
        if self.last_modified:
            wire["lastModified"] = self.last_modified
        return wire


@dataclass(frozen=True, slots=True)
class Text:
    """A text block. A plain ``str`` is equivalent to a block without annotations."""

    text: str
    annotations: Annotations | None = None

    def to_block(self) -> Block:
        """Return the ``text`` block."""
        return _annotated({"type": "text", "text": self.text}, self.annotations)


@dataclass(frozen=True, slots=True)
class _Media:
    data: bytes
    mime_type: str = ""
    annotations: Annotations | None = None
    uri: str = ""

    kind: ClassVar[str]
    for_models: ClassVar[frozenset[str]]

    def to_block(self) -> Block:
        """Return an image or audio block with padded base64 (RES-14).

        For MIME types that models refuse, return an embedded resource instead. Raises ValueError if the bytes
        are empty, truncated or not of their MIME type (TOOL-25).
        """
        if not isinstance(self.data, (bytes, bytearray, memoryview)):
            raise TypeError(f"{type(self).__name__} takes bytes, not {type(self.data).__name__}.")
        data = bytes(self.data)
        mime_type = checked_type(data, self.mime_type, self.kind)
        if mime_type.partition(";")[0] not in self.for_models:
            uri = self.uri or _name_of(data)
            return File(_text_of(data, mime_type), mime_type, uri, self.annotations).to_block()
        block = {"type": self.kind, "data": encode_base64(data), "mimeType": mime_type}
        return _annotated(block, self.annotations)


@dataclass(frozen=True, slots=True)
class Image(_Media):
    """An image. If ``mime_type`` is empty, the type is detected from the bytes.

    Models take PNG, JPEG, GIF and WebP. Other images are sent as an embedded resource, with ``uri``.
    """

    kind: ClassVar[str] = "image"
    for_models: ClassVar[frozenset[str]] = MODEL_IMAGES


@dataclass(frozen=True, slots=True)
class Audio(_Media):
    """Recorded sound. If ``mime_type`` is empty, the type is detected from the bytes."""

    kind: ClassVar[str] = "audio"
    for_models: ClassVar[frozenset[str]] = MODEL_AUDIO


@dataclass(frozen=True, slots=True)
class File:
    """A document with its content: ``str`` is sent as text, ``bytes`` as base64.

    In a tool or prompt result the file becomes an embedded resource and needs ``uri``. A resource function
    may omit ``uri``: its result then uses the URI that the client requested.
    """

    data: str | bytes
    mime_type: str = ""
    uri: str = ""
    annotations: Annotations | None = None

    def to_contents(self, uri: str = "", mime_type: str = "") -> dict[str, Any]:
        """Return one ``contents`` member of a read result. Arguments fill an empty ``uri`` or ``mime_type``.

        Raises ValueError for bytes that are not the image or audio of their MIME type.
        """
        mime = self.mime_type or mime_type
        if not isinstance(self.data, str):
            check_file(bytes(self.data), mime)
        return resource_contents(self.data, uri=self.uri or uri, mime_type=mime)

    def to_block(self) -> Block:
        """Return the embedded ``resource`` block. Raises ValueError if ``uri`` is empty (PROMPT-05)."""
        if not self.uri:
            raise ValueError("File inside a result needs a uri, for example File(text, uri='notes://1').")
        return _annotated({"type": "resource", "resource": self.to_contents()}, self.annotations)


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a resource that the client may read."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None
    annotations: Annotations | None = None

    def to_block(self) -> Block:
        """Return the ``resource_link`` block."""
        block: Block = {"type": "resource_link", "uri": self.uri, "name": self.name}
        optional = {"title": self.title, "description": self.description, "mimeType": self.mime_type}
        block.update({key: value for key, value in optional.items() if value})
        if self.size is not None:
            block["size"] = self.size
        return _annotated(block, self.annotations)


ContentObject = Text | Image | Audio | File | Link
CONTENT_CLASSES = (Text, Image, Audio, File, Link)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Full control of a tool's result: content blocks, structured content, ``isError`` and ``_meta``."""

    content: str | ContentObject | Mapping[str, Any] | Sequence[str | ContentObject | Mapping[str, Any]] = ()
    structured: Any = None
    is_error: bool = False
    meta: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a prompt. A plain ``str`` or content object in a list counts as a user message."""

    content: str | ContentObject | Mapping[str, Any]
    role: Role = "user"

    def to_wire(self) -> dict[str, Any]:
        """Return ``{"role", "content"}`` with one block."""
        return {"role": self.role, "content": to_block(self.content)}


def encode_base64(data: bytes) -> str:
    """Encode bytes as standard base64 with padding (RES-14)."""
    return base64.b64encode(data).decode("ascii")


def resource_contents(data: str | bytes, *, uri: str, mime_type: str = "") -> dict[str, Any]:
    """Return one ``contents`` member (RES-02): ``str`` as ``text``, ``bytes`` as ``blob``."""
    contents: dict[str, Any] = {"uri": uri}
    if mime_type:
        contents["mimeType"] = mime_type
    if isinstance(data, str):
        contents["text"] = data
    else:
        contents["blob"] = encode_base64(data)
    return contents


def to_block(value: object) -> Block:
    """Return the wire block of a ``str``, a content object or a ready block (a mapping with ``type``).

    Raises TypeError for anything else, and ValueError for content that clients cannot use.
    """
    if isinstance(value, str):
        return {"type": "text", "text": value}
    if isinstance(value, CONTENT_CLASSES):
        return value.to_block()
    if isinstance(value, Mapping) and isinstance(value.get("type"), str):
        return _ready(value)
    raise TypeError(f"{type(value).__name__} is not content; use str, Text, Image, Audio, File or Link.")


def _ready(block: Mapping[str, Any]) -> Block:
    """Return a copy of a ready block. Images and audio are checked as in ``Image`` and ``Audio``."""
    media = {"image": Image, "audio": Audio}.get(block["type"])
    if media is None:
        return dict(block)
    try:
        data = base64.b64decode(block["data"], validate=True)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"a block of type {block['type']!r} needs 'data' in base64.") from None
    others = {name: value for name, value in block.items() if name not in ("type", "data", "mimeType")}
    return {**others, **media(data, str(block.get("mimeType") or "")).to_block()}


def _text_of(data: bytes, mime_type: str) -> str | bytes:
    """Return an SVG as text, which models can read, and other data unchanged."""
    try:
        return data.decode() if mime_type.startswith("image/svg+xml") else data
    except UnicodeDecodeError:
        return data


def _name_of(data: bytes) -> str:
    """Return an ``ni:`` URI with the SHA-256 digest of data that has no URI (RFC 6920)."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"ni:///sha-256;{digest}"


def _annotated(block: Block, annotations: Annotations | None) -> Block:
    if annotations is not None and (wire := annotations.to_wire()):
        block["annotations"] = wire
    return block
