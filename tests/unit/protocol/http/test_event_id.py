from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_app.protocol.http.event_id import EventId, InvalidEventId, parse

STREAMS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=40)


@pytest.mark.requirement("T-RES-02")
@given(STREAMS, st.integers(0, 2**48 - 1), st.integers(0, 10**15 - 1))
def test_event_id_round_trips(stream: str, epoch: int, offset: int) -> None:
    event_id = EventId(stream, epoch, offset)
    text = event_id.encode()
    assert parse(text) == event_id
    assert len(text) <= 69
    assert all(0x21 <= ord(character) <= 0x7E for character in text)


@pytest.mark.requirement("T-RES-05")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a.1",
        "a.1.2.3",
        "a.1.2\n",
        " a.1.2",
        "a.1.2 ",
        "A.1.2",
        "a_b.1.2",
        ".1.2",
        "a..2",
        "a.1.",
        "a.01.2",
        "a.1.02",
        "a.F.2",
        "a.g.2",
        "a.-1.2",
        "a.1.-2",
        "a.1.+2",
        "a.1.1_0",
        "a.1.\u0661",
        "\u00e4.1.2",
        "a.1000000000000.2",
        "a.1.1000000000000000",
        "a" * 41 + ".1.2",
        "a" * 100_000,
        "../../etc/passwd",
        "{other}.1.2",
    ],
)
def test_malformed_event_id_is_rejected(text: str) -> None:
    with pytest.raises(InvalidEventId) as caught:
        parse(text)
    assert caught.value.http_status == 400


@given(st.text(max_size=80))
def test_accepted_event_id_is_canonical(text: str) -> None:
    with suppress(InvalidEventId):
        assert parse(text).encode() == text
