"""prompts/list and prompts/get (specification: server/prompts)."""

from __future__ import annotations

from typing import Any

from mcp_app.catalogue.snapshots.entries import PromptEntry
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.contents import to_messages
from mcp_app.execution.calls.context import Context
from mcp_app.handlers.context import CallerContext, Params, RequestContext, Result, name_and_arguments
from mcp_app.handlers.lists import page
from mcp_app.protocol import downlevel
from mcp_app.protocol.errors import InvalidParams


def list_prompts(context: CallerContext, params: Params) -> Result:
    """Return a page of prompts (PROMPT-01)."""
    return page("prompts", context, params)


def get_prompt(context: RequestContext, params: Params) -> Result:
    """Return a rendered prompt, or start a call of its function (PROMPT-02 to PROMPT-04)."""
    name, arguments = name_and_arguments("prompts/get", params)
    entry = context.catalogue.prompt(name)
    if entry is None:
        raise InvalidParams(
            f"Unknown prompt: {name[:128]}", data={"kind": "prompt_not_found", "name": name[:128]}
        )
    accepted = entry.accept(arguments)
    function = entry.function
    if function is None:
        context.inputs(params)  # Templates ask no questions, so no state is valid for them (STATE-07).
        return downlevel.result(
            "prompts/get", _described(entry, to_messages(entry.render(accepted))), context.version
        )
    runner = context.services.calls.runner

    async def work(call: RunningCall, prompt_context: Context) -> dict[str, Any]:
        value = await runner.run_prompt(function, dict(accepted), call, prompt_context)
        return _described(entry, to_messages(value))

    context.run(params, target=entry.name, work=work)
    return None


def _described(entry: PromptEntry, messages: list[dict[str, Any]]) -> dict[str, Any]:
    description = entry.wire.get("description")
    return {"description": description, "messages": messages} if description else {"messages": messages}
