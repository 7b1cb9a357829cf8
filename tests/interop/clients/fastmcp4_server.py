"""A FastMCP server with a tool of each behaviour: ``fastmcp4_server.py PORT``."""

import sys

from fastmcp import Context, FastMCP

server = FastMCP("fast")


@server.tool(output_schema=None)
async def steps(number: int, ctx: Context) -> str:
    """Report each step."""
    for step in range(1, number + 1):
        await ctx.report_progress(step, number, f"step {step}")
    return f"{number} steps"


@server.tool(output_schema=None)
async def greet(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("Your name?", response_type=str)
    return f"{answer.action} {getattr(answer, 'data', '')}"


@server.resource("notes://all")
def notes() -> str:
    """List the notes."""
    return "one, two"


server.run("http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
