"""Validates recorded messages by the schema of the revision that their client negotiated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from mcp_app.protocol.versions import LEGACY, V2025_11_25
from tests.samples.published_schema import DIRECTORY
from tests.wire import referee
from tests.wire.recorder import STDIO, without_id

SHOWN = 1_000
PUBLISHED = sorted(file.stem for file in DIRECTORY.glob("2*.json"))
Line = tuple[str, str | None, list[tuple[Any, str]], bytes]


class Unpublished(AssertionError):
    """Some test made the server send unpublished members; only the whole run can name the message."""


@dataclass
class Circumstances:
    """The context of a message: requests by id, and the revision of its reader."""

    asked: dict[tuple[str, Any], set[str]] = field(default_factory=dict)
    named: dict[tuple[str, Any], str] = field(default_factory=dict)
    opened: dict[str, str] = field(default_factory=dict)
    modern: dict[str, str] = field(default_factory=dict)

    def note(self, line: Line) -> None:
        """Update the context from one line."""
        speaker, revision, requests, said = line
        for request_id, method in requests:
            # Tests may reuse an id.
            self.asked.setdefault((speaker, _key(request_id)), set()).add(method)
            if revision is not None:
                self.named[speaker, _key(request_id)] = self.modern[speaker] = revision
        if b'"protocolVersion":' in said[:200]:
            result = orjson.loads(said).get("result", {})
            if "serverInfo" in result:
                self.opened[speaker] = result["protocolVersion"]

    def version(self, speaker: str, revision: str | None, message: Any) -> str:
        """Return the revision of a message; the newest for a revision that does not exist."""
        found = revision or self.named.get((speaker, _id(message)))
        found = found or self.opened.get(speaker) or self.modern.get(speaker) or LEGACY[0]
        return found if found in PUBLISHED else PUBLISHED[-1]


def problems(folder: Path) -> list[str]:
    """Return each kind of problem once; empty if all messages are as published."""
    known = _circumstances(folder)
    seen: set[tuple[str, frozenset[str], bytes]] = set()
    found: dict[str, str] = {}
    for speaker, revision, _, said in _lines(folder):
        for text, message in _members(said):
            version = known.version(speaker, revision, message)
            methods = frozenset(known.asked.get((speaker, _id(message)), ()))
            key = (version, methods, without_id(text))
            if key not in seen:
                seen.add(key)
                for problem in _judged(version, methods, message, stdio=speaker.startswith(STDIO)):
                    found.setdefault(f"{version}: {problem}", f"{sorted(methods)} {text[:SHOWN]!r}")
    return [f"{problem}\n    {example}" for problem, example in found.items()]


def count(folder: Path) -> dict[str, int]:
    """Return the number of recorded messages by revision."""
    known = _circumstances(folder)
    found: dict[str, int] = {}
    for speaker, revision, _, said in _lines(folder):
        for _, message in _members(said):
            version = known.version(speaker, revision, message)
            found[version] = found.get(version, 0) + 1
    return found


def _circumstances(folder: Path) -> Circumstances:
    found = Circumstances()
    for line in _lines(folder):
        found.note(line)
    return found


def _lines(folder: Path) -> Iterator[Line]:
    for file in sorted(folder.glob("*.lines")):
        with file.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # A killed process may leave a partial line.
                    head, _, said = line[:-1].partition(b"\t")
                    speaker, revision, requests = orjson.loads(head)
                    yield speaker, revision, requests, said


def _members(said: bytes) -> list[tuple[bytes, Any]]:
    """Return the message or batch members; empty for a line that records only requests."""
    if not said:
        return []
    try:
        root = orjson.loads(said)
    except orjson.JSONDecodeError:
        return [(said, None)]
    if isinstance(root, list):
        return [(orjson.dumps(member), member) for member in root]
    return [(said, root)]


def _key(request_id: Any) -> Any:
    return (type(request_id).__name__, request_id)


def _id(message: Any) -> Any:
    return _key(message.get("id")) if isinstance(message, dict) else None


def _judged(version: str, methods: frozenset[str], message: Any, *, stdio: bool) -> list[str]:
    if not isinstance(message, dict):
        return ["not a message"]
    if message.keys() == {"n"} or message.get("method") == "notifications/other":
        return []  # Unit tests of the writers append these to streams; the server has no such messages.
    if "error" in message and message.get("id") is None:
        return _without_id_problems(version, message, stdio=stdio)
    if "method" in message or "error" in message:
        return referee.problems(version, message)
    if not methods:
        return []  # Tests kill processes: a request may then be unrecorded while its answer is.
    # An id used for several requests: correct for one of them.
    return min((referee.problems(version, message, method) for method in methods), key=len)


def _without_id_problems(version: str, message: dict[str, Any], *, stdio: bool) -> list[str]:
    """RPC-07: an error whose request has no readable id; before 2025-11-25 no schema has a form for it."""
    old = version < V2025_11_25
    if "id" in message and not (stdio and old):
        return ["the member 'id' is null"]
    bare = {name: value for name, value in message.items() if name != "id"}
    return referee.error_problems(V2025_11_25 if old else version, bare)
