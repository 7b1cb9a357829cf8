"""Lines of log: one each whatever they say, with the ids of their call, without credentials."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import pytest

from mcp_app.observability.correlation import CURRENT, Correlation, correlated
from mcp_app.observability.hidden_characters import HIDDEN, escaped
from mcp_app.observability.logs import LINE_BYTES, PROCESS, BriefRefusals, JsonLines, TextLines, json_line
from tests.samples.admin_seed import ALL_HOSTILE, HOSTILE, RAW_HIDDEN

CALL = Correlation("0123456789abcdef0123", "a-call", 7, "user:1/key:2", "4bf92f3577b34da6a3ce929d0e0e4736")
FORMATS = [TextLines(), JsonLines()]


class Kept(logging.Handler):
    """Keeps what it is given, worded."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    made = logging.Logger("mcp.tests")  # noqa: LOG001 - one that nobody else writes to
    yield made
    made.handlers.clear()


def kept(log: logging.Logger, formatter: logging.Formatter) -> list[str]:
    handler = Kept(formatter)
    log.addHandler(handler)
    return handler.lines


def test_a_line_of_json_has_its_facts_and_the_ids_of_its_call(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROCESS, "web-1")
    lines = kept(log, JsonLines())
    with correlated(CALL):
        log.warning("It took %d s", 3)
    log.warning("of nothing")
    found, other = map(json.loads, lines)
    assert found.pop("time").endswith("Z")
    assert isinstance(found.pop("pid"), int)
    assert found == {
        "level": "WARNING",
        "logger": "mcp.tests",
        "message": "It took 3 s",
        "process": "web-1",
        "session": "0123456789ab",
        "call": "a-call",
        "request_id": 7,
        "principal": "user:1/key:2",
        "trace_id": CALL.trace_id,
    }
    assert other.keys() == {"time", "level", "logger", "message", "process", "pid"}


def test_a_line_of_text_ends_with_the_ids_that_are_known(log: logging.Logger) -> None:
    lines = kept(log, TextLines())
    with correlated(Correlation("abc", request_id='x" ERROR [forged=1]\n', principal="loopback")):
        log.error("No")
    log.error("No")
    assert lines[0].endswith(
        ' ERROR mcp.tests No [session=abc request_id="x\\" ERROR [forged=1]\\u000a" principal=loopback]'
    )
    assert lines[1].endswith(" ERROR mcp.tests No")


@pytest.mark.parametrize("formatter", FORMATS)
@pytest.mark.parametrize("text", [*HOSTILE.values(), "a\x85b\u2028c\x7f", "\ud800"])
def test_hostile_text_stays_one_line_that_shows_what_hides(
    log: logging.Logger, formatter: logging.Formatter, text: str
) -> None:
    lines = kept(log, formatter)
    with correlated(Correlation(text, text, text, text)):
        log.warning("A client said %s", text)
    (line,) = lines
    assert len(line.splitlines()) == 1
    assert not set(line) & set(RAW_HIDDEN)
    line.encode()
    if isinstance(formatter, JsonLines):
        assert json.loads(line)["message"] == f"A client said {text}"


@pytest.mark.parametrize("formatter", FORMATS)
def test_no_line_of_a_traceback_looks_like_a_record(
    log: logging.Logger, formatter: logging.Formatter
) -> None:
    lines = kept(log, formatter)
    try:
        raise ValueError(f"\n2026-11-21 00:00:00,000 ERROR root forged\n{ALL_HOSTILE}")
    except ValueError:
        log.exception("A tool failed")
    (found,) = lines
    first, *more = found.splitlines()
    assert "A tool failed" in first
    assert all(line.startswith("    ") for line in more)
    assert "Traceback (most recent call last)" in found
    assert not set(found) & set(RAW_HIDDEN)
    assert bool(more) is isinstance(formatter, TextLines)


@pytest.mark.parametrize("formatter", FORMATS)
def test_credentials_are_left_out_of_messages_and_tracebacks(
    log: logging.Logger, formatter: logging.Formatter
) -> None:
    lines = kept(log, formatter)
    secrets = ["mcp_aaaaaaaaaaaaaaaaaaaaaaaa", "hunter2hunter2", "letmeinplease"]
    try:
        raise RuntimeError(f"redis://:{secrets[1]}@host refused")
    except RuntimeError:
        log.exception("Bearer %s was refused, password=%s", secrets[0], secrets[2])
    assert not [secret for secret in secrets if secret in lines[0]]


def test_a_huge_line_of_json_is_cut_and_stays_json(log: logging.Logger) -> None:
    lines = kept(log, JsonLines())
    try:
        raise ValueError("\x00" * 50_000 + "the end of it")
    except ValueError:
        log.exception("\u202e" * 50_000)
    assert len(lines[0].encode()) <= LINE_BYTES
    found = json.loads(lines[0])
    assert found["message"].endswith("…")
    assert found["exception"].endswith("the end of it")


def test_ids_follow_work_into_threads_that_inherit_the_context_and_end_with_it(log: logging.Logger) -> None:
    lines = kept(log, JsonLines())
    with correlated(CALL):
        inside = threading.Thread(target=copy_context().run, args=(log.warning, "inside"))
        inside.start()
        inside.join()
    assert CURRENT.get() is None
    outside = threading.Thread(target=log.warning, args=("outside",))
    outside.start()
    outside.join()
    assert ["call" in json.loads(line) for line in lines] == [True, False]


def test_a_record_may_bring_its_own_ids(log: logging.Logger) -> None:
    lines = kept(log, TextLines())
    log.warning("later", extra={"correlation": CALL})
    assert "call=a-call" in lines[0]


def test_a_line_of_another_program_is_wrapped() -> None:
    found: dict[str, Any] = json.loads(json_line(logger="redis", message="\x1b[1mReady", process="redis"))
    assert (found["message"], found["process"], found["level"]) == ("\x1b[1mReady", "redis", "INFO")


def test_an_escape_of_a_character_beyond_sixteen_bits_is_one_json_understands() -> None:
    assert json.loads(f'"{escaped(chr(0xE0041))}"') == "\U000e0041"
    assert HIDDEN.isprintable() is False


@pytest.mark.parametrize(("status", "brief"), [(400, True), (403, True), (404, True), (500, False)])
def test_a_refused_request_is_one_line_and_a_failed_one_keeps_its_traceback(status: int, brief: bool) -> None:
    """As Django logs them: with the exception that led to the answer."""
    try:
        raise PermissionError("no right")
    except PermissionError as error:
        record = logging.LogRecord(
            "django.request", logging.WARNING, __file__, 1, "Refused: %s", ("/x",), None
        )
        record.exc_info = (type(error), error, error.__traceback__)
    record.status_code = status
    assert BriefRefusals().filter(record)
    assert ("\n" not in TextLines().format(record)) == brief
