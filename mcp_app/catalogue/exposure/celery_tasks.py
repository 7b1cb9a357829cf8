"""Celery tasks as tools. This module uses the interface of a task and does not import Celery.

A call runs the task's function inside the call's job, on a copy of the task. The shared task object therefore
stays unchanged, and progress that a call reports reaches only the client of that call.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any, Final, Unpack
from uuid import uuid4

from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.definitions.signatures import code_path
from mcp_app.catalogue.definitions.tool_definitions import TaskKeywords, ToolOptions
from mcp_app.catalogue.definitions.wire_parts import check_options
from mcp_app.catalogue.exposure.adapters import CONTEXT, definition_of

_TASK_PARTS: Final = ("name", "run", "push_request", "pop_request")


def offer(task: Any, **options: Unpack[TaskKeywords]) -> None:
    """Register a task as a tool, as ``Expose.celery_task`` describes."""
    run = _function_of(task)
    check_options(code_path(run), options, TaskKeywords.__annotations__)
    parsed = ToolOptions(**options, background=True)
    name = parsed.name or task.name.rpartition(".")[2]
    timeout = parsed.timeout or getattr(task, "soft_time_limit", None) or getattr(task, "time_limit", None)
    options_of_task = replace(parsed, name=name, timeout=timeout)
    registry.add_tool(definition_of(_stand_in(task, run), options_of_task))


def _function_of(task: Any) -> Callable[..., Any]:
    """Return the function of a task, bound to the task if it takes ``self``."""
    if not all(hasattr(task, part) for part in _TASK_PARTS):
        raise DefinitionError(
            f"{task!r} is no Celery task: give what @shared_task or @app.task made of a function."
        )
    run: Callable[..., Any] = task.run
    if inspect.iscoroutinefunction(run):
        raise DefinitionError(f"{code_path(run)}: Celery does not run async functions; use @tool.")
    return run


def _stand_in(task: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the task's name, documentation and hints that runs the task for one call."""

    @functools.wraps(run)
    def stand_in(**arguments: Any) -> Any:
        context = arguments.pop(CONTEXT)
        return _run(_copy(task, context), arguments)

    hints = dict(getattr(run, "__annotations__", {}))
    for item in inspect.signature(run).parameters.values():
        if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD):
            hints.setdefault(item.name, Any)
    stand_in.__annotations__ = hints
    return stand_in


def _copy(task: Any, context: Any) -> Any:
    """Return a copy of the task for one call, with its own ``update_state``.

    ``copy.copy`` cannot be used: tasks define pickling so that a copy is the task itself.
    """
    # A shared task is a proxy for the task of the current Celery application.
    original = task._get_current_object() if hasattr(task, "_get_current_object") else task
    copied = object.__new__(type(original))
    vars(copied).update(vars(original))
    # Celery wraps ``run`` for automatic retries. A call ends with its first exception: run the original.
    run = vars(original).get("_orig_run", original.run)
    copied.run = run.__func__.__get__(copied) if inspect.ismethod(run) else run
    copied.update_state = functools.partial(_report, context)
    # Abortable tasks query Celery's result backend, which a call does not have.
    copied.is_aborted = lambda **_: context.cancelled
    return copied


def _run(task: Any, arguments: dict[str, Any]) -> Any:
    task.push_request(id=str(uuid4()))
    try:
        return task(**arguments)
    except _celery_exception("Ignore"):
        return None  # The task has reported its own state.
    except _celery_exception("Reject") as error:
        raise ToolError(str(getattr(error, "reason", "") or "The task was rejected.")) from None
    finally:
        task.pop_request()


def _celery_exception(name: str) -> tuple[type[Exception], ...]:
    module = sys.modules.get("celery.exceptions")
    return () if module is None else (getattr(module, name),)


def _report(context: Any, task_id: Any = None, state: Any = None, meta: Any = None, **_: Any) -> None:
    """Send an ``update_state`` to the client: as progress if it has a number, else as a log message.

    Raises Cancelled if the call was cancelled, which stops a task at its next report.
    """
    context.raise_if_cancelled()
    report = meta if isinstance(meta, Mapping) else {}
    message = next((str(report[name]) for name in ("message", "status") if report.get(name)), None)
    current, total = _number(report.get("current")), _number(report.get("total"))
    if current is not None:
        context.progress(current, total, message)
    elif message or state:
        context.info(message or str(state))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        return None
    return value
