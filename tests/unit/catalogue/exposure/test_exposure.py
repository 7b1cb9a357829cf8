"""Exposing an existing Celery task as a background tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, current_task, shared_task
from celery.contrib.abortable import AbortableTask
from celery.exceptions import Ignore, Reject

from mcp_app import expose
from mcp_app.catalogue.definitions.definition import DefinitionError, ToolDefinition
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.testing import Client, call_tool

app = Celery("library", broker="memory://", backend="cache+memory://", set_as_current=False)


@app.task(bind=True)
def index(self: Any, books: int, language: str = "en") -> dict[str, int]:
    """Index the books of a language.

    Args:
        books: How many.
    """
    for number in range(1, books + 1):
        meta = {"current": number, "total": books, "message": f"book {number}"}
        self.update_state(state="PROGRESS", meta=meta)
    return {"indexed": books}


@app.task(name="reports.daily")
def report(day, detail=False):  # type: ignore[no-untyped-def]
    """A task of old: no type hints."""
    current_task.update_state(state="LOOKING", meta={"status": f"looking at {day}"})
    return f"{day} {detail}"


@app.task(bind=True, autoretry_for=(ValueError,), max_retries=5, time_limit=120)
def flaky(self: Any, wrong: bool) -> str:
    """Fails."""
    self.update_state(state="PROGRESS", meta={"current": 1})
    if wrong:
        raise ValueError("secret detail")
    return f"{self.request.id is not None} {self.request.called_directly}"


class Classy(app.Task):  # type: ignore[misc, name-defined]
    """A task made by hand."""

    name = "library.tasks.classy"
    greeting = "Hello"

    def run(self, who: str) -> str:
        """Greet someone."""
        self.update_state(meta={"current": 1, "total": 1})
        return f"{self.greeting}, {who}"


@shared_task
def shared(text: str) -> str:
    """Belongs to whichever application is current."""
    return text.upper()


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    with registry.isolated():
        yield


def _defined(name: str) -> ToolDefinition:
    return registry.tools[name]


def test_task_signature_becomes_input_schema_without_self() -> None:
    expose.celery_task(index)
    wire = _defined("index").wire
    assert wire["description"] == "Index the books of a language."
    assert wire["inputSchema"]["properties"] == {
        "books": {"type": "integer", "description": "How many."},
        "language": {"type": "string", "default": "en"},
    }
    assert wire["inputSchema"]["required"] == ["books"]
    assert wire["outputSchema"]["type"] == "object"
    assert _defined("index").background


def test_task_time_limit_applies_unless_overridden() -> None:
    expose.celery_task(flaky)
    expose.celery_task(index, name="other", queue="fast", timeout=3, max_running=2)
    assert _defined("flaky").timeout == 120
    other = _defined("other")
    assert (other.queue, other.timeout, other.max_running) == ("fast", 3, 2)


async def test_update_state_becomes_progress_and_return_value_becomes_result() -> None:
    expose.celery_task(index)
    reports: list[dict[str, Any]] = []
    async with Client() as client:
        result = await client.call_tool("index", {"books": 3}, on_progress=reports.append)
    assert result["structuredContent"] == {"indexed": 3}
    assert (reports[-1]["progress"], reports[-1]["total"], reports[-1]["message"]) == (3, 3, "book 3")


async def test_state_without_number_becomes_log_message() -> None:
    expose.celery_task(report)
    async with Client() as client:
        result = await client.call_tool("daily", {"day": [2026, 11, 20]})
        said = [params["data"] for method, params in client.notifications if method.endswith("/message")]
    assert result["content"][0]["text"] == "[2026, 11, 20] False"
    assert said == ["looking at [2026, 11, 20]"]


@pytest.mark.parametrize(
    "task", [flaky, app.register_task(Classy())], ids=["automatic retries", "task class"]
)
def test_task_reports_without_result_backend(task: Any) -> None:
    expose.celery_task(task, name="made")
    arguments = {"wrong": False} if task is flaky else {"who": "Ada"}
    result = call_tool("made", arguments)
    assert result["content"][0]["text"] in ("True True", "Hello, Ada")


def test_task_exception_becomes_tool_error_without_secrets_or_retry() -> None:
    expose.celery_task(flaky)
    result = call_tool("flaky", {"wrong": True})
    assert result["isError"]
    assert "secret" not in str(result)
    assert "incident" in result["content"][0]["text"]


@app.task(bind=True)
def odd_ends(self: Any, how: str) -> str | None:
    """Ends as Celery tasks may, besides returning and raising."""
    if how == "not finite":
        self.update_state(state="PROGRESS", meta={"current": float("nan"), "total": 3, "message": "counting"})
    elif how == "ignore":
        self.update_state(state="SUCCESS", meta={"current": 1})
        raise Ignore
    elif how == "reject":
        raise Reject("not today", requeue=False)
    return how


@app.task(bind=True, base=AbortableTask)
def abortable(self: Any) -> bool:
    """Asks whether it was aborted."""
    aborted: bool = self.is_aborted()
    return aborted


@pytest.mark.parametrize(
    ("how", "is_error", "text"),
    [("not finite", False, "not finite"), ("ignore", False, "null"), ("reject", True, "not today")],
)
def test_ignore_reject_and_non_finite_results_are_mapped(how: str, is_error: bool, text: str) -> None:
    expose.celery_task(odd_ends)
    result = call_tool("odd_ends", {"how": how})
    assert result["isError"] is is_error
    assert text in result["content"][0]["text"]


def test_abortable_task_needs_no_result_backend() -> None:
    expose.celery_task(abortable)
    assert call_tool("abortable")["structuredContent"] == {"result": False}


def test_shared_task_resolves_in_current_application() -> None:
    expose.celery_task(shared)
    assert call_tool("shared", {"text": "abc"})["content"][0]["text"] == "ABC"


def test_exposure_leaves_task_unchanged() -> None:
    before = dict(vars(index._get_current_object()))
    expose.celery_task(index)
    call_tool("index", {"books": 1})
    assert vars(index._get_current_object()) == before
    assert index.request.id is None


def test_invalid_arguments_never_reach_task() -> None:
    expose.celery_task(index)
    assert call_tool("index", {"books": "many"})["isError"]
    assert call_tool("index", {"books": 1, "self": 2})["isError"]


def _function() -> None: ...


@app.task
async def later() -> None: ...


@app.task
def any_number(*numbers: int) -> int:
    return sum(numbers)


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (_function, "is no Celery task"),
        (later, "does not run async functions"),
        (any_number, "usable by keyword"),
    ],
)
def test_unusable_task_raises_definition_error_with_reason(task: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        expose.celery_task(task)


@pytest.mark.parametrize("options", [{"tittle": "Index"}, {"background": True}, {"background": False}])
def test_unknown_option_is_rejected_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"unknown option '{next(iter(options))}'"):
        expose.celery_task(index, **options)
    assert not registry.tools
