"""Tools that talk, ask, hold on, announce and come back; further entries so that every list has pages."""

from __future__ import annotations

import asyncio
import os

from django.conf import settings

from mcp_app import Context, notify_resource_updated, prompt, resource, tool


@tool
async def chat(ctx: Context) -> str:
    """Reports progress and writes log lines at three levels."""
    for step in (1, 2, 3):
        ctx.progress(step, 3, f"{step} of 3")
        await asyncio.sleep(0.15)
    ctx.debug("too quiet")
    ctx.info("said aloud")
    ctx.warning("said louder")
    return "chatted"


@tool
async def ask_everything(ctx: Context) -> str:
    """Asks the person, the model and for the roots."""
    name = await ctx.aelicit("What is your name?", str)
    words = (await ctx.asample("Say something.", max_tokens=10))["content"]["text"]
    roots = await ctx.aroots()
    return f"{name.value} | {words} | {roots[0]['uri'].rstrip('/')}"


@tool
async def hold(ctx: Context, name: str) -> str:
    """Works until it is cancelled, and leaves a note of that."""
    ctx.info(f"holding {name}")
    try:
        await asyncio.sleep(50)
    except asyncio.CancelledError:
        (settings.DATA_DIR / f"stopped-{name}").touch()
        raise
    return "held"


@tool
def stopped(name: str) -> str:
    """Whether that ``hold`` was cancelled, in whichever process it ran."""
    return "yes" if (settings.DATA_DIR / f"stopped-{name}").exists() else "no"


@tool
def touch(uri: str) -> str:
    """Announces that a resource changed."""
    notify_resource_updated(uri)
    return "touched"


@tool
def switch() -> str:
    """Takes ``spare`` away, or brings it back."""
    from mcp_app.catalogue.changes.services import set_enabled
    from mcp_app.models import Tool

    entry = Tool.objects.get(name="spare")
    set_enabled(entries=[entry], enabled=not entry.enabled, actor=None)
    return "switched"


@tool
def spare() -> str:
    """Is switched off and on."""
    return "spare"


@tool
async def come_back(ctx: Context) -> str:
    """Ends its connection half way; the answer waits for the client's return."""
    ctx.close_stream(retry_ms=100)
    await asyncio.sleep(0.3)
    return "welcome back"


@tool
async def process() -> str:
    """The process that answers."""
    return str(os.getpid())


@prompt
def third() -> str:
    """A prompt more."""
    return "A third prompt."


@resource("note://one", mime_type="text/plain")
def one() -> str:
    """A resource that changes."""
    return "one"


@resource("note://two", mime_type="text/plain")
def two() -> str:
    """Another resource."""
    return "two"


@resource("note://{word}/longer", mime_type="text/plain")
def longer(word: str) -> str:
    """A template."""
    return word * 2


@resource("note://{word}/shorter", mime_type="text/plain")
def shorter(word: str) -> str:
    """Another template."""
    return word[:1]
