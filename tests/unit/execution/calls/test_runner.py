"""Application functions: where they run, and the handling of their exceptions."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.http import Http404
from django.utils import translation
from django.utils.translation import gettext_lazy
from rest_framework.exceptions import NotFound, Throttled
from rest_framework.exceptions import PermissionDenied as ApiPermissionDenied
from rest_framework.exceptions import ValidationError as ApiValidationError

from mcp_app import Context, ToolError
from mcp_app.execution.calls.call import Cancelled, RunningCall
from mcp_app.execution.calls.context import Context as CallContext
from mcp_app.protocol.errors import InternalError, InvalidParams, ResourceNotFound
from tests.unit.catalogue.entries import prompt_entry, resource_entry, tool_entry
from tests.unit.execution.stage import CANCELLED, Stage, begun


class Unspeakable(ToolError):
    """An error whose ``str()`` raises."""

    def __str__(self) -> str:
        raise SystemExit


colour = contextvars.ContextVar("colour", default="none")


def call_of(
    stage: Stage, function: Callable[..., Any], arguments: dict[str, Any] | None = None
) -> RunningCall:
    """Start a call of a function as a tool."""
    entry = tool_entry(function)

    async def work(call: RunningCall, context: CallContext) -> dict[str, Any]:
        return await stage.runner.run_tool(entry, arguments or {}, call, context)

    return stage.start(work)


async def text_of(stage: Stage, function: Callable[..., Any], **arguments: Any) -> str:
    found = (await stage.said(call_of(stage, function, arguments)))[-1]["result"]["content"][0]["text"]
    assert isinstance(found, str)
    return found


async def test_async_functions_run_on_loop_and_sync_functions_in_threads(stage: Stage) -> None:
    async def here() -> str:
        """Where."""
        return str(threading.get_ident())

    def there() -> str:
        """Where."""
        return str(threading.get_ident())

    own = str(threading.get_ident())
    assert await text_of(stage, here) == own
    assert await text_of(stage, there) != own


async def test_thread_sees_context_variables_of_request(stage: Stage) -> None:
    def seen() -> str:
        """What."""
        return colour.get()

    colour.set("green")
    assert await text_of(stage, seen) == "green"


async def test_context_is_passed_to_declaring_function(stage: Stage) -> None:
    async def who(name: str, ctx: Context) -> str:
        """Who."""
        return f"{name} {ctx.request_id}"

    assert await text_of(stage, who, name="call") == "call 1"


@pytest.mark.requirement("TOOL-12")
@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ToolError("what the model may know"), "what the model may know"),
        (ToolError(), "The tool failed."),
        (ValidationError(["one", "two"]), "one; two"),
        (ValidationError({"title": ["Too long."], "__all__": ["No."]}), "title: Too long.; No."),
        (Http404("No page of this name."), "No page of this name."),
        (Http404(), "Not found."),
        (NotFound("No such paper."), "No such paper."),
        (ApiPermissionDenied(), "You do not have permission to perform this action."),
        (Throttled(wait=5), "Request was throttled. Expected available in 5 seconds."),
        (
            ApiValidationError({"year": ["Required."], "lines": [{}, {"price": ["Too low."]}]}),
            "year: Required.; lines[1].price: Too low.",
        ),
        (ApiValidationError({"non_field_errors": ["Twice."]}), "Twice."),
        (PermissionDenied(), "Permission denied."),
        (PermissionDenied("not you"), "not you"),
        (ObjectDoesNotExist(), "Not found."),
        (InvalidParams("of a question inside"), "of a question inside"),
        (ResourceNotFound("Resource not found", data={"uri": "a://b"}), "Resource not found: a://b"),
        (KeyError("secret detail"), "The tool failed unexpectedly (incident "),
        (SystemExit("secret detail"), "The tool failed unexpectedly (incident "),
        (asyncio.CancelledError("secret detail"), "The tool failed unexpectedly (incident "),
        (KeyboardInterrupt("secret detail"), "The tool failed unexpectedly (incident "),
        (GeneratorExit("secret detail"), "The tool failed unexpectedly (incident "),
        (BaseExceptionGroup("secret detail", [SystemExit()]), "The tool failed unexpectedly (incident "),
        (Unspeakable("secret detail"), "The tool failed unexpectedly (incident "),
        (Cancelled(), "The tool stopped itself."),
    ],
)
@pytest.mark.usefixtures("handled_ctrl_c")
async def test_tool_exception_becomes_error_result_without_secrets(
    raised: BaseException, text: str, threaded: bool, stage: Stage
) -> None:
    async def here() -> str:
        """Fails."""
        raise raised

    def there() -> str:
        """Fails."""
        raise raised

    (answer,) = await stage.said(call_of(stage, there if threaded else here))
    assert answer["result"]["isError"]
    assert answer["result"]["content"][0]["text"].startswith(text)
    assert "secret detail" not in str(answer)


async def test_internal_error_of_tool_is_request_error(stage: Stage) -> None:
    async def broken() -> str:
        """Fails."""
        raise InternalError("ours")

    (answer,) = await stage.said(call_of(stage, broken))
    assert answer["error"] == {"code": -32603, "message": "ours"}


async def test_incident_number_is_logged_with_exception(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> str:
        """Fails."""
        raise KeyError("the detail")

    incident = (await text_of(stage, fail)).partition("incident ")[2].removesuffix(").")
    assert incident in caplog.text
    assert "the detail" in caplog.text


async def test_raise_if_cancelled_counts_as_cancelled(stage: Stage) -> None:
    started = asyncio.Event()

    async def loop(ctx: Context) -> str:
        """Loops."""
        started.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ctx.raise_if_cancelled()

    call = call_of(stage, loop)
    await started.wait()
    call.cancel("")
    assert await stage.said(call) == [CANCELLED]


async def test_cancelled_thread_is_answered_immediately(stage: Stage) -> None:
    free = threading.Event()

    def stuck() -> str:
        """Stuck."""
        free.wait(10)
        return "late"

    call = call_of(stage, stuck)
    await begun(call)
    call.cancel("")
    assert await stage.said(call) == [CANCELLED]
    free.set()


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (ToolError("refused"), -32602, "refused"),
        (ToolError(), -32602, "The request was refused."),
        (ValidationError(["one", "two"]), -32602, "one; two"),
        (ValidationError({"title": ["Too long."]}), -32602, "title: Too long."),
        (Http404("Gone."), -32602, "Gone."),
        (NotFound("No such paper."), -32602, "No such paper."),
        (KeyError("secret detail"), -32603, "Internal error (incident "),
    ],
)
@pytest.mark.requirement("PROMPT-03")
async def test_prompt_exception_becomes_request_error(
    raised: Exception, code: int, words: str, stage: Stage
) -> None:
    def failing() -> str:
        """Fails."""
        raise raised

    function = prompt_entry(failing).function
    assert function is not None

    async def work(call: RunningCall, context: CallContext) -> dict[str, Any]:
        return dict(await stage.runner.run_prompt(function, {}, call, context))

    (answer,) = await stage.said(stage.start(work, method="prompts/get"))
    assert answer["error"]["code"] == code
    assert answer["error"]["message"].startswith(words)
    assert "secret detail" not in str(answer)


@pytest.mark.requirement("RES-03", "RES-06")
@pytest.mark.parametrize("raised", [ObjectDoesNotExist("m"), FileNotFoundError("/p"), PermissionDenied("p")])
async def test_hidden_resource_is_reported_as_missing(raised: Exception, stage: Stage) -> None:
    def failing() -> str:
        """Fails."""
        raise raised

    function = resource_entry(failing, "a://b").function
    assert function is not None

    async def work(call: RunningCall, context: CallContext) -> dict[str, Any]:
        return dict(await stage.runner.read_resource(function, "a://b", {}, call, context))

    (answer,) = await stage.said(stage.start(work, method="resources/read"))
    assert answer["error"] == {"code": -32002, "message": "Resource not found", "data": {"uri": "a://b"}}


async def test_closed_runner_refuses_threads(stage: Stage) -> None:
    def late() -> str:
        """Late."""
        return "late"

    await stage.runner.close()
    (answer,) = await stage.said(call_of(stage, late))
    assert answer["result"]["isError"]


FAULTS: list[BaseException] = [
    ToolError("Not today."),
    ToolError(),
    ValidationError("Too short."),
    PermissionDenied("Not yours."),
    ObjectDoesNotExist("No such order."),
    ResourceNotFound("Resource not found", data={"uri": "x://y"}),
    InvalidParams("Wrong."),
    Cancelled(),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{type(fault).__name__} {fault}")
async def test_non_waiting_tool_fails_like_ordinary_tool(stage: Stage, fault: BaseException) -> None:
    async def fails() -> str:
        """Fail."""
        raise fault

    entry = tool_entry(fails)
    assert entry.function.never_waits
    ordinary = (await stage.said(call_of(stage, fails)))[-1]["result"]
    assert stage.runner.run_inline(entry, {}, "2025-11-25") == ordinary


@pytest.mark.parametrize(
    "fault",
    [RuntimeError("secret path"), SystemExit(3), KeyError("k"), KeyboardInterrupt(), GeneratorExit()],
    ids=repr,
)
@pytest.mark.usefixtures("handled_ctrl_c")
async def test_unexpected_immediate_failure_returns_incident_number_only(
    stage: Stage, fault: BaseException
) -> None:
    async def fails() -> str:
        """Fail."""
        raise fault

    result = stage.runner.run_inline(tool_entry(fails), {}, "2025-11-25")
    assert result["isError"]
    assert result["content"][0]["text"].startswith("The tool failed unexpectedly (incident ")


async def test_lazy_result_uses_language_activated_by_tool(stage: Stage) -> None:
    async def german() -> Any:
        """In German."""
        translation.activate("de")
        return gettext_lazy("Monday")

    result = contextvars.copy_context().run(stage.runner.run_inline, tool_entry(german), {}, "2025-11-25")
    assert result["content"][0]["text"] == "Montag"


async def test_run_at_once_raises_protocol_error_of_tool(stage: Stage) -> None:
    async def fails() -> str:
        """Fail."""
        raise InternalError("Internal error.")

    with pytest.raises(InternalError):
        stage.runner.run_inline(tool_entry(fails), {}, "2025-11-25")
