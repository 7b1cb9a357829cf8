"""Tools that log, elicit, wait, notify and reconnect; more entries, so that every list has several pages."""

from __future__ import annotations

import asyncio
import os

from django.conf import settings

from mcp_app import Context, notify_resource_updated, prompt, resource, tool


@tool
async def chat(ctx: Context) -> str:
    """Report progress and log at three levels."""
    for step in (1, 2, 3):
        ctx.progress(step, 3, f"{step} of 3")
        await asyncio.sleep(0.15)
    ctx.debug("too quiet")
    ctx.info("said aloud")
    ctx.warning("said louder")
    return "chatted"


@tool
async def ask_everything(ctx: Context) -> str:
    """Elicit from the user, sample from the model and list the roots."""
    name = await ctx.aelicit("What is your name?", str)
    words = (await ctx.asample("Say something.", max_tokens=10))["content"]["text"]
    roots = await ctx.aroots()
    return f"{name.value} | {words} | {roots[0]['uri'].rstrip('/')}"


@tool
async def hold(ctx: Context, name: str) -> str:
    """Run until cancelled, and record the cancellation."""
    ctx.info(f"holding {name}")
    try:
        await asyncio.sleep(50)
    except asyncio.CancelledError:
        (settings.DATA_DIR / f"stopped-{name}").touch()
        raise
    return "held"


@tool
def stopped(name: str) -> str:
    """Return whether that ``hold`` was cancelled, in any process."""
    return "yes" if (settings.DATA_DIR / f"stopped-{name}").exists() else "no"


@tool
def touch(uri: str) -> str:
    """Notify that a resource changed."""
    notify_resource_updated(uri)
    return "touched"


@tool
def switch() -> str:
    """Disable ``spare``, or enable it again."""
    from mcp_app.catalogue.changes.services import set_enabled
    from mcp_app.models import Tool

    entry = Tool.objects.get(name="spare")
    set_enabled(entries=[entry], enabled=not entry.enabled, actor=None)
    return "switched"


@tool
def spare() -> str:
    """Return nothing of interest; it is disabled and enabled."""
    return "spare"


@tool
async def come_back(ctx: Context) -> str:
    """Close the connection midway; the response waits for the client to resume."""
    ctx.close_stream(retry_ms=100)
    await asyncio.sleep(0.3)
    return "welcome back"


@tool
async def process() -> str:
    """Return the process id."""
    return str(os.getpid())


@prompt
def third() -> str:
    """Return another prompt."""
    return "A third prompt."


@resource("note://one", mime_type="text/plain")
def one() -> str:
    """Return a resource that changes."""
    return "one"


@resource("note://two", mime_type="text/plain")
def two() -> str:
    """Return another resource."""
    return "two"


@resource("note://{word}/longer", mime_type="text/plain")
def longer(word: str) -> str:
    """Return a text of a template."""
    return word * 2


@resource("note://{word}/shorter", mime_type="text/plain")
def shorter(word: str) -> str:
    """Return a text of another template."""
    return word[:1]
