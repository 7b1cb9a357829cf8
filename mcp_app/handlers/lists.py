"""The page shared by the four list methods (specification: server/utilities/pagination)."""

from __future__ import annotations

from mcp_app.handlers.context import CallerContext, Params
from mcp_app.protocol.errors import InvalidParams


def page(kind: str, context: CallerContext, params: Params) -> bytes:
    """Return the encoded page after ``cursor`` (PAGE-01). Raise InvalidParams for a bad cursor (PAGE-02)."""
    return context.catalogue.page(kind, context.session.version, _cursor(params))


def built_page(kind: str, context: CallerContext, params: Params) -> bytes | None:
    """Return the encoded page after ``cursor`` (PAGE-01), or None if ``page`` may take long.

    Raises InvalidParams for a bad cursor (PAGE-02).
    """
    return context.catalogue.built_page(kind, context.session.version, _cursor(params))


def _cursor(params: Params) -> str | None:
    cursor = params.get("cursor")
    if cursor is not None and type(cursor) is not str:
        raise InvalidParams("The member 'cursor' must be a string.")
    return cursor
