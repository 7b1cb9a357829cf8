"""A trip:

progress, elicitation, sampling, a step in a worker, structured output; independent of revisions.
"""

from __future__ import annotations

from billiard.process import current_process
from django.conf import settings
from pydantic import BaseModel

from mcp_app import CannotAsk, Context, ToolError, tool

USUAL_DAYS = 2


class Plan(BaseModel):
    """A plan for a city."""

    city: str
    days: int
    idea: str


class Booking(BaseModel):
    """A booking made in a worker."""

    city: str
    guest: str
    reservations: int
    greeting: str
    made_on: str


@tool
async def plan_trip(ctx: Context, city: str) -> Plan:
    """Plan a trip: for as many days as the user chooses, or the default without elicitation."""
    ctx.progress(1, 3, "for how long")
    try:
        answer = await ctx.aelicit(f"How many days will you be in {city}?", int)
        days = answer.value if answer else USUAL_DAYS
    except CannotAsk:
        days = USUAL_DAYS
    ctx.progress(2, 3, "what to do")
    said = await ctx.asample(f"What is there to do in {city}?", max_tokens=20)
    ctx.progress(3, 3, "planned")
    return Plan(city=city, days=days, idea=said["content"]["text"])


@tool(background=True)
def book_trip(ctx: Context, city: str) -> Booking:
    """Book a trip in a worker, and elicit a name meanwhile."""
    ctx.progress(1, 3, "for whom")
    answer = ctx.elicit("In which name shall be booked?", str)
    if not answer:
        raise ToolError("Nothing is booked without a name.")
    number = ctx.once("reserve", lambda: reserve(city))
    ctx.progress(2, 3, "reserved")
    said = ctx.sample(f"Greet a guest of {city}.", max_tokens=20)
    ctx.progress(3, 3, "booked")
    return Booking(
        city=city,
        guest=answer.value,
        reservations=number,
        greeting=said["content"]["text"],
        made_on=current_process().name.partition("-")[0],
    )


def reserve(city: str) -> int:
    """Reserve a room; return the number of reserved rooms."""
    with (settings.DATA_DIR / f"rooms in {city}").open("a+") as rooms:
        rooms.write("reserved\n")
        rooms.seek(0)
        return len(rooms.readlines())
