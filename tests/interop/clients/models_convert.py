"""Conversion of tools to model APIs by Python libraries:

models_convert.py <file with the tools>; prints results.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import mcp_types as types
from agents.mcp.server import MCPServer
from agents.mcp.util import MCPUtil
from google.genai import _mcp_utils as genai
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

Wire = dict[str, Any]


class _Server(MCPServer):
    """A server that only converts, without a connection."""

    name = "converted"

    async def _refused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    connect = cleanup = list_tools = call_tool = list_prompts = get_prompt = _refused


def _agents(strict: bool) -> Callable[[Wire], Wire]:
    def convert(tool: Wire) -> Wire:
        made = MCPUtil.to_function_tool(types.Tool.model_validate(tool), _Server(), strict)
        return {"name": made.name, "parameters": made.params_json_schema}

    return convert


def _pydantic_ai(transformer: Any, strict: bool | None) -> Callable[[Wire], Wire]:
    return lambda tool: {
        "name": tool["name"],
        "parameters": transformer(deepcopy(tool["inputSchema"]), strict=strict).walk(),
    }


def _langchain(strict: bool | None) -> Callable[[Wire], Wire]:
    def convert(tool: Wire) -> Wire:
        made = StructuredTool(
            name=tool["name"],
            description=tool.get("description", ""),
            args_schema=deepcopy(tool["inputSchema"]),
            func=lambda **_: None,
        )
        found: Wire = convert_to_openai_tool(made, strict=strict)["function"]
        return found

    return convert


def _genai(tool: Wire) -> Wire:
    made = genai.mcp_to_gemini_tool(types.Tool.model_validate(tool)).function_declarations[0]
    return {"name": made.name, "parameters": made.parameters.model_dump(mode="json", exclude_none=True)}


def _without_flags(schema: Any) -> Any:
    """Remove the boolean members at which the library fails."""
    if isinstance(schema, list):
        return [_without_flags(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_flags(value)
        for key, value in schema.items()
        if key != "additionalProperties" or not isinstance(value, bool)
    }


CLIENTS: dict[str, Callable[[Wire], Wire]] = {
    "openai-agents": _agents(strict=False),
    "openai-agents strict": _agents(strict=True),
    "pydantic-ai openai": _pydantic_ai(OpenAIJsonSchemaTransformer, None),
    "pydantic-ai openai strict": _pydantic_ai(OpenAIJsonSchemaTransformer, True),
    "pydantic-ai google": _pydantic_ai(GoogleJsonSchemaTransformer, None),
    "langchain": _langchain(None),
    "langchain strict": _langchain(True),
    "google-genai": _genai,
    "google-genai without flags": lambda tool: _genai(
        {**tool, "inputSchema": _without_flags(tool["inputSchema"])}
    ),
}


def _converted(convert: Callable[[Wire], Wire], tool: Wire) -> Wire:
    try:
        return convert(deepcopy(tool))
    except Exception as error:  # noqa: BLE001 - what a library raises is what the test is about
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Convert each tool by each client, and print the results."""
    tools = json.loads(Path(sys.argv[1]).read_text())
    print(
        json.dumps(
            {
                client: {tool["name"]: _converted(convert, tool) for tool in tools}
                for client, convert in CLIENTS.items()
            }
        )
    )


if __name__ == "__main__":
    main()
