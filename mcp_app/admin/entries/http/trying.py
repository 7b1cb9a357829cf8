"""A try of an HTTP tool: its request is sent, and what came back is shown."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
from asgiref.sync import async_to_sync

from mcp_app.admin.entries.http.preview import SHOWN_BYTES, cut, example_of, request_text
from mcp_app.catalogue.definitions.content import ToolError, to_block
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.sources.http.calls import called
from mcp_app.catalogue.sources.http.plan import RequestPlan
from mcp_app.catalogue.sources.http.sending import Attempt, Recorder

# A try may take this long, whatever the tool's own timeout is.
TRY_SECONDS: Final = 30.0
_MISSING: Final = re.compile(r"([^\s;]+): expected a value, got nothing")


def _unfit(text: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Return the error for arguments that do not fit, with an example of the missing values."""
    if not _MISSING.search(text):
        return text
    properties = schema.get("properties", {})
    wanted = [name for name in schema.get("required", ()) if name not in arguments]
    example = orjson.dumps({name: example_of(properties.get(name), name) for name in wanted}).decode()
    text = _MISSING.sub(r"enter a value for \1", text)
    return f"{text.removesuffix('.')} in Test arguments, such as {example}."


class Outcome:
    """The request and the response of a try, for display. Secrets are hidden."""

    def __init__(self) -> None:
        self.attempts: list[dict[str, Any]] = []
        self.problem = ""
        self.content = ""
        self.structured = ""
        self.milliseconds = 0

    @property
    def sent(self) -> bool:
        """Return True if any attempt left this server."""
        return any(attempt["sent"] for attempt in self.attempts)

    def run(
        self, plan: RequestPlan, schema: Mapping[str, Any], output: Any, arguments: Mapping[str, Any]
    ) -> None:
        """Send the request. Nothing is raised: ``problem`` is what went wrong."""
        recorder, started = Recorder(), time.monotonic()
        try:
            checked = validation.compile_schema(dict(schema))
            if not checked.is_valid(dict(arguments)):
                raise ToolError(_unfit(checked.explain(dict(arguments)), schema, arguments))
            result = async_to_sync(called)(_bounded(plan), arguments, recorder)
            blocks = [result.content] if not isinstance(result.content, (list, tuple)) else result.content
            self.content = "\n".join(_text(to_block(block)) for block in blocks)
            if result.structured is not None:
                self.structured = orjson.dumps(result.structured, option=orjson.OPT_INDENT_2).decode()
            if output:
                fits = validation.compile_schema(output)
                if not fits.is_valid(result.structured):
                    self.problem = (
                        f"The result does not fit the output schema: {fits.explain(result.structured)}"
                    )
        except (ToolError, validation.SchemaError) as error:
            # The lines after the first are the body, which the page shows as the raw response.
            self.problem, _, body = str(error).partition("\n")
            if plan.result.error_mapping:
                self.content = body
        self.milliseconds = round((time.monotonic() - started) * 1000)
        self.attempts = [_shown(attempt) for attempt in recorder.attempts]


def _bounded(plan: RequestPlan) -> RequestPlan:
    return replace(plan, timeout=min(plan.timeout, TRY_SECONDS), cache_seconds=0)


def _shown(attempt: Attempt) -> dict[str, Any]:
    received = attempt.received
    shown: dict[str, Any] = {
        "request": request_text(attempt.method, attempt.url, attempt.headers, attempt.body),
        "problem": attempt.problem,
        "sent": attempt.sent,
        "milliseconds": attempt.milliseconds,
    }
    if received is not None:
        shown["status"] = received.status
        shown["headers"] = "\n".join(f"{name}: {value}" for name, value in received.headers)
        shown["body"] = cut(received.body)
    return shown


def _text(block: Mapping[str, Any]) -> str:
    if block.get("type") == "text":
        return str(block["text"])[:SHOWN_BYTES]
    return f"({block.get('type')}, {block.get('mimeType') or block.get('resource', {}).get('mimeType', '')})"
