"""Survey of a document: its operations with sizes and problems, for choosing among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mcp_app.catalogue.definitions.tool_limits import BYTES_PER_TOKEN
from mcp_app.catalogue.sources.http.openapi import security
from mcp_app.catalogue.sources.http.openapi.bodies import chosen
from mcp_app.catalogue.sources.http.openapi.convert import Converter, tags_of, texts_of
from mcp_app.catalogue.sources.http.openapi.faults import Unconvertible
from mcp_app.catalogue.sources.http.openapi.names import repeated
from mcp_app.catalogue.sources.http.openapi.reading import Document, Place

# From this number of selected operations on, the page warns.
FEW: Final = 40
MANY_TOKENS: Final = 15_000
_EVERY: Final = 100
_MAX_BODIES: Final = 20


@dataclass(frozen=True, slots=True)
class SurveyedOperation:
    """An operation of a document. ``refused`` is the reason why it cannot become a tool, or "".

    ``size`` is the length of its definition in ``tools/list`` in bytes. ``recursive`` is True if clients that
    expand references refuse it.
    """

    key: str
    method: str
    path: str
    operation_id: str
    name: str
    tags: tuple[str, ...]
    summary: str
    deprecated: bool
    disabled: bool
    body: str
    security: tuple[str, ...]
    size: int
    refused: str
    notes: tuple[str, ...]
    recursive: bool
    bodies: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """The estimated number of tokens of the definition."""
        return self.size // BYTES_PER_TOKEN


def survey(
    converter: Converter, progress: Callable[[int, int], None] | None = None
) -> list[SurveyedOperation]:
    """Return all operations of a document. ``progress`` is called with the finished and the total number."""
    document = converter.document
    twice = repeated(place.operation.get("operationId") for place in document.places.values())
    total = len(document.places)
    found = []
    for number, (key, place) in enumerate(document.places.items()):
        if progress is not None and number % _EVERY == 0:
            progress(number, total)
        found.append(_surveyed(converter, key, place, twice))
    return found


def _surveyed(converter: Converter, key: str, place: Place, twice: frozenset[str]) -> SurveyedOperation:
    refused, size, recursive = "", 0, False
    notes: list[str] = []
    try:
        tool = converter.outline(key)
        size, recursive = tool.size, tool.is_recursive
        notes = [str(note) for note in tool.notes]
    except Unconvertible as error:
        refused = str(error)
    operation = place.operation
    identifier = operation.get("operationId")
    if isinstance(identifier, str) and identifier in twice:
        notes.insert(0, f"Another operation has the id {identifier[:100]!r} as well")
    hint = operation.get("x-speakeasy-mcp")
    requirements = security.requirements_of(converter.document, place)
    return SurveyedOperation(
        key=key,
        method=place.method,
        path=place.path,
        operation_id=identifier if isinstance(identifier, str) else "",
        name=converter.names[key],
        tags=tags_of(place),
        summary=texts_of(place)[0],
        deprecated=operation.get("deprecated") is True,
        disabled=isinstance(hint, dict) and hint.get("disabled") is True,
        body=chosen(bodies) if (bodies := _bodies(converter.document, place)) else "",
        security=security.needed(requirements, converter.schemes, converter.credentials),
        size=size,
        refused=refused,
        notes=tuple(notes),
        recursive=recursive,
        bodies=tuple(bodies)[:_MAX_BODIES],
    )


def _bodies(document: Document, place: Place) -> dict[str, None]:
    """Return the content types of an operation's body."""
    try:
        solved = document.solved(place.operation.get("requestBody"))
    except KeyError:
        return {}
    content = solved.get("content") if isinstance(solved, dict) else None
    return dict.fromkeys(content) if isinstance(content, dict) else {}
