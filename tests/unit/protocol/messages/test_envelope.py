from __future__ import annotations

from typing import Any

import pytest

from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages import envelope

V = "2026-07-28"
META: dict[str, Any] = {envelope.VERSION: V, envelope.CLIENT_CAPABILITIES: {"sampling": {}}}


def named(version: Any) -> dict[str, Any]:
    return {"_meta": {envelope.VERSION: version}}


@pytest.mark.requirement("ERA-01", "ERA-06", "VER-09")
@pytest.mark.parametrize(
    ("header", "params", "is_modern"),
    [
        (None, {}, False),
        (None, {"_meta": {}}, False),
        (None, {"_meta": 7}, False),
        ("2025-11-25", {}, False),
        ("2024-11-05", named("2025-11-25"), False),
        (" 2025-11-25\t", {}, False),
        (None, named(V), True),
        ("2025-11-25", named(V), True),
        (V, {}, True),
        (V, named("2025-11-25"), True),
        ("2025-11-25, 2025-11-25", {}, True),
        ("2025-11-25\xa0", {}, True),
        ("2031-01-01", {}, True),
        (None, named("v999"), True),
        (None, named(""), True),
        (None, named(20260728), True),
        (None, named(None), False),
    ],
)
def test_era_is_taken_from_meta_or_header(
    header: str | None, params: dict[str, Any], is_modern: bool
) -> None:
    fields = {} if header is None else {b"mcp-protocol-version": header.encode("latin-1")}
    assert envelope.names_modern(fields, params) is is_modern


@pytest.mark.requirement("META-01")
@pytest.mark.parametrize(
    ("meta", "word"),
    [
        (None, "_meta"),
        ([], "_meta"),
        ({}, "protocolVersion"),
        ({**META, envelope.VERSION: 7}, "protocolVersion"),
        ({envelope.VERSION: V}, "clientCapabilities"),
        ({**META, envelope.CLIENT_CAPABILITIES: []}, "clientCapabilities"),
        ({**META, envelope.CLIENT_CAPABILITIES: None}, "clientCapabilities"),
    ],
)
def test_invalid_meta_member_is_named(meta: Any, word: str) -> None:
    with pytest.raises(InvalidParams, match=word):
        envelope.read({} if meta is None else {"_meta": meta})


@pytest.mark.requirement("META-04")
@pytest.mark.parametrize("level", ["verbose", "", None, 3, {}, ["info"], "INFO"])
def test_invalid_log_level_is_rejected(level: Any) -> None:
    with pytest.raises(InvalidParams, match="logLevel"):
        envelope.read({"_meta": {**META, envelope.LOG_LEVEL: level}})


@pytest.mark.requirement("META-11")
@pytest.mark.parametrize("token", [1.5, None, {}, True])
def test_invalid_progress_token_is_rejected(token: Any) -> None:
    with pytest.raises(InvalidParams):
        envelope.read({"_meta": {**META, "progressToken": token}})


@pytest.mark.requirement("META-02", "META-03")
@pytest.mark.parametrize("info", [None, 7, {"name": "a", "version": "1"}])
def test_client_info_is_optional(info: Any) -> None:
    told = envelope.read({"_meta": META if info is None else {**META, envelope.CLIENT_INFO: info}})
    assert told.client_info == (info if isinstance(info, dict) else {})
    assert (told.version, told.capabilities, told.log_level) == (V, {"sampling": {}}, "")
