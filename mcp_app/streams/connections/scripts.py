"""The Lua scripts, loaded from their files. The head of each file documents its keys and arguments."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent / "lua"


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script: its source, and the SHA-1 digest by which Redis identifies it."""

    source: str
    digest: str


def _script(name: str, *, writes_stream: bool = False) -> Script:
    files = ("stream", name) if writes_stream else (name,)
    source = "".join((_FOLDER / f"{file}.lua").read_text() for file in files)
    return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


APPEND = _script("append", writes_stream=True)
FINISH = _script("finish", writes_stream=True)
OPEN = _script("open", writes_stream=True)
KEEP = _script("keep", writes_stream=True)
CREATE_SESSION = _script("create_session")
UPDATE_SESSION = _script("update_session")
END_SESSION = _script("end_session")
SUBSCRIBE = _script("subscribe")
OPEN_REQUEST = _script("open_request")
ANSWER_REQUEST = _script("answer_request")
HIT = _script("hit")
ACQUIRE = _script("acquire")
HELD = _script("held")
ADD_FIGURES = _script("add_figures")
KEPT = _script("kept")
LEASE = _script("lease")
SPEND = _script("spend")

ALL = (
    APPEND,
    FINISH,
    OPEN,
    KEEP,
    CREATE_SESSION,
    UPDATE_SESSION,
    END_SESSION,
    SUBSCRIBE,
    OPEN_REQUEST,
    ANSWER_REQUEST,
    HIT,
    ACQUIRE,
    HELD,
    ADD_FIGURES,
    KEPT,
    LEASE,
    SPEND,
)
