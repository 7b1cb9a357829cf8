"""W3C trace context (META-09): well-formed parts are read, malformed parts are ignored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.messages.trace_context import TraceContext, carried, joined, read

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def sent(**members: Any) -> TraceContext | None:
    return read({"traceparent": PARENT, **members})


def test_complete_context_round_trips() -> None:
    members = {"traceparent": PARENT, "tracestate": "a=1,b@c=2", "baggage": "user=x;p,shop=%20"}
    found = read(members)
    assert found == TraceContext(TRACE, SPAN, 1, "a=1,b@c=2", "user=x;p,shop=%20")
    assert found.meta == members
    assert found.headers == {"traceparent": PARENT, "tracestate": "a=1,b@c=2"}


@pytest.mark.parametrize(
    "parent",
    [
        None,
        7,
        "",
        PARENT.upper(),
        f" {PARENT}",
        f"{PARENT}\n",
        f"{PARENT}-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"{PARENT}, {PARENT}",
    ],
)
def test_malformed_traceparent_is_ignored(parent: object) -> None:
    assert read({"traceparent": parent, "tracestate": "a=1"}) is None


def test_later_traceparent_version_is_read_by_known_parts() -> None:
    found = read({"traceparent": f"cc-{TRACE}-{SPAN}-ff-whatever"})
    assert found is not None
    assert found.traceparent == f"00-{TRACE}-{SPAN}-03"


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("vendor=v", "vendor=v"),
        (" a=1 ,\tb=2 ", "a=1,b=2"),
        ("a=1,,b=2", "a=1,b=2"),
        ("1tenant@v=x y", "1tenant@v=x y"),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("a", ""),
        ("a=\n", ""),
        ("a=\u202e", ""),
        ("a=" + "x" * 511, ""),
        (",".join(f"k{number}=1" for number in range(33)), ""),
        (["a=1"], ""),
    ],
)
def test_malformed_tracestate_is_dropped_and_parent_kept(state: object, kept: str) -> None:
    found = sent(tracestate=state)
    assert found is not None
    assert found.tracestate == kept


@pytest.mark.parametrize(
    ("baggage", "kept"),
    [
        ("a=1", "a=1"),
        ("a = 1 ; p = 2 , b=", "a = 1 ; p = 2,b="),
        ("a", ""),
        ('a="x"', ""),
        ("a=1\r\nx: y", ""),
        ("a=" + "x" * 8192, ""),
        (",".join("a=1" for _ in range(65)), ""),
        ({}, ""),
    ],
)
def test_malformed_baggage_is_dropped(baggage: object, kept: str) -> None:
    found = sent(baggage=baggage)
    assert found is not None
    assert found.baggage == kept


@given(st.dictionaries(st.sampled_from(["traceparent", "tracestate", "baggage"]), st.text(max_size=600)))
def test_context_read_is_printable_and_round_trips(carrier: dict[str, str]) -> None:
    found = read({"traceparent": PARENT} | carrier)
    if found is not None:
        assert read(found.meta) == found
        assert all(part.isascii() and part.isprintable() for part in found.meta.values())


def test_carried_meta_has_context_members_and_no_malformed_ones() -> None:
    meta = {"progressToken": 1, "traceparent": "nonsense", "baggage": "a=1", "example.com/x": [1]}
    assert carried(meta, None) == {"progressToken": 1, "example.com/x": [1]}
    assert carried(meta, read({"traceparent": PARENT}))["traceparent"] == PARENT


def test_client_request_joins_trace_without_baggage() -> None:
    context = sent(tracestate="a=1", baggage="secret=1")
    params = joined({"message": "?", "_meta": {"progressToken": 1}}, context)
    assert params == {
        "message": "?",
        "_meta": {"progressToken": 1, "traceparent": PARENT, "tracestate": "a=1"},
    }
    assert joined({"message": "?"}, None) == {"message": "?"}
