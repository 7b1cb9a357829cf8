"""Log records: one line each, with correlation ids, without credentials."""

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
    """A handler that keeps formatted records."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    made = logging.Logger("mcp.tests")  # noqa: LOG001 - a logger without other writers
    yield made
    made.handlers.clear()


def kept(log: logging.Logger, formatter: logging.Formatter) -> list[str]:
    handler = Kept(formatter)
    log.addHandler(handler)
    return handler.lines


def test_json_line_has_fields_and_correlation_ids(
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


def test_text_line_ends_with_known_correlation_ids(log: logging.Logger) -> None:
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
def test_hostile_text_stays_on_one_line_with_escapes(
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
def test_traceback_line_never_looks_like_a_record(log: logging.Logger, formatter: logging.Formatter) -> None:
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
def test_credentials_are_redacted_in_messages_and_tracebacks(
    log: logging.Logger, formatter: logging.Formatter
) -> None:
    lines = kept(log, formatter)
    secrets = ["mcp_aaaaaaaaaaaaaaaaaaaaaaaa", "hunter2hunter2", "letmeinplease"]
    try:
        raise RuntimeError(f"redis://:{secrets[1]}@host refused")
    except RuntimeError:
        log.exception("Bearer %s was refused, password=%s", secrets[0], secrets[2])
    assert not [secret for secret in secrets if secret in lines[0]]


def test_huge_json_line_is_truncated_and_stays_valid(log: logging.Logger) -> None:
    lines = kept(log, JsonLines())
    try:
        raise ValueError("\x00" * 50_000 + "the end of it")
    except ValueError:
        log.exception("\u202e" * 50_000)
    assert len(lines[0].encode()) <= LINE_BYTES
    found = json.loads(lines[0])
    assert found["message"].endswith("…")
    assert found["exception"].endswith("the end of it")


def test_correlation_follows_copied_context_into_threads(log: logging.Logger) -> None:
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


def test_record_may_carry_its_own_correlation(log: logging.Logger) -> None:
    lines = kept(log, TextLines())
    log.warning("later", extra={"correlation": CALL})
    assert "call=a-call" in lines[0]


def test_line_of_another_program_is_wrapped_in_json() -> None:
    found: dict[str, Any] = json.loads(json_line(logger="redis", message="\x1b[1mReady", process="redis"))
    assert (found["message"], found["process"], found["level"]) == ("\x1b[1mReady", "redis", "INFO")


def test_non_bmp_escape_is_valid_json() -> None:
    assert json.loads(f'"{escaped(chr(0xE0041))}"') == "\U000e0041"
    assert HIDDEN.isprintable() is False


@pytest.mark.parametrize(("status", "brief"), [(400, True), (403, True), (404, True), (500, False)])
def test_refused_request_is_one_line_and_failed_one_keeps_traceback(status: int, brief: bool) -> None:
    """The record has the exception that led to the response, as in Django's logger."""
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
