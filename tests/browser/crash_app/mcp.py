"""Tools that crash in two ways, in the web process and in a worker."""

from __future__ import annotations

from mcp_app import tool

SECRET = "hunter2-hunter2"
HIDDEN = "\u202e"
NAMES = {"C-1": "Ada"}


@tool
def customer(number: str) -> str:
    """Return the name of a customer."""
    return name_of(number)


@tool(background=True)
def customer_later(number: str) -> str:
    """Return the name of a customer from a worker."""
    return name_of(number)


def name_of(number: str) -> str:
    """Return the name, or crash."""
    if not number.startswith("C-"):
        raise ValueError(f"no{HIDDEN} customer {number!r}, password={SECRET}")
    return NAMES[number]
