"""Classification of Redis error replies: outages and wrong commands."""

from __future__ import annotations

import pytest

from mcp_app.streams.base import StreamsError, StreamsFull, StreamsUnavailable
from mcp_app.streams.connections.redis_connection import fault
from tests.servers.redis_answers import ERRORS

SCRIPT_6_2 = "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -{}"
SCRIPT_7 = "{} script: 1, on @user_script:1."
SPELLINGS = ("{}", SCRIPT_6_2, SCRIPT_7)
EXPECTED: dict[str, type[StreamsError]] = {"OOM": StreamsFull, "NOPERM": StreamsError}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ERRORS)
def test_error_reply_is_outage_unless_command_is_wrong(name: str, spelling: str) -> None:
    """A redirected command (MOVED) and an error of a later version count as outages."""
    text = ERRORS[name][1:].decode().strip()
    assert type(fault(Exception(spelling.format(text)))) is EXPECTED.get(name, StreamsUnavailable)


@pytest.mark.parametrize(
    "text",
    [
        "ERR unknown command 'FOO'",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: Unknown Redis command",
        "something without a code",
        "",
    ],
)
def test_wrong_command_is_not_an_outage(text: str) -> None:
    assert type(fault(Exception(text))) is StreamsError
