"""Keyset pagination.

An index finds the rows of a page. The time does not depend on the number of rows before the page.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError as FieldError
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

from mcp_app.message_log.pages import find
from mcp_app.models import Message

SIZE = 50
LARGEST = 200
BAD_CURSOR = "Use the cursor of an earlier page without changes."


class KeysetPages(CursorPagination):
    """Pages of ``limit`` rows with links to the adjacent pages.

    The view defines the order.
    """

    page_size = SIZE
    max_page_size = LARGEST
    page_size_query_param = "limit"
    page_size_query_description = f"The number of rows on a page, 1 to {LARGEST}. The default is {SIZE}."
    cursor_query_description = "The position of the page, from `next` or `previous` of another page."
    ordering: Any = "-id"

    def get_ordering(self, request: Any, queryset: Any, view: Any) -> Any:
        """Return the order of the view, with the primary key as its last part so that the order is unique."""
        self._model = queryset.model
        order = getattr(view, "order", self.ordering)
        return (order,) if order.endswith("id") else (order, "-pk")

    def get_page_size(self, request: Request) -> int:
        """Return the parameter ``limit``. Raises ValidationError if it is not valid."""
        text = request.query_params.get("limit", str(SIZE))
        if not (text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= LARGEST):
            raise ValidationError({"limit": [f"Must be an integer from 1 to {LARGEST}."]})
        return int(text)

    def decode_cursor(self, request: Request) -> Any:
        """Return the cursor in the request.

        Raises ValidationError if its position is not a valid value of the field that defines the order.
        """
        encoded = request.query_params.get(self.cursor_query_param)
        if encoded is None:
            return None
        try:
            cursor = super().decode_cursor(request)
            if cursor is not None and cursor.position is not None:
                field = self._model._meta.get_field(self.ordering[0].lstrip("-"))
                field.run_validators(field.to_python(cursor.position))
        except (NotFound, FieldError, ValueError, OverflowError) as error:
            raise ValidationError({"cursor": [BAD_CURSOR]}) from error
        return cursor

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the OpenAPI schema of a page."""
        address = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": address, "previous": address, "results": schema},
        }


class LogPages(KeysetPages):
    """Pages of the message log.

    Each page examines a limited number of rows. It may therefore contain fewer messages than requested.
    """

    def paginate_log(
        self, asked: dict[str, Any], request: Request, *, without: tuple[str, ...]
    ) -> list[Message]:
        """Return the page of messages that match ``asked``, newest first. The request contains the cursor."""
        self.base_url = request.build_absolute_uri()
        self.ordering = self.get_ordering(request, Message.objects, None)
        cursor = self.decode_cursor(request) or Cursor(0, False, None)
        size = self.get_page_size(request)
        position = int(cursor.position or 0)
        before, after = (None, position) if cursor.reverse else (position or None, None)
        self._found = find(asked, before=before, after=after, newest_first=True, size=size, without=without)
        return self._found.messages[::-1]

    def get_next_link(self) -> str | None:
        """Return the address of the page of older messages."""
        return self._link(self._found.older, is_back=False)

    def get_previous_link(self) -> str | None:
        """Return the address of the page of newer messages."""
        return self._link(self._found.newer, is_back=True)

    def _link(self, pk: int | None, *, is_back: bool) -> str | None:
        if pk is None:
            return None
        link: str = self.encode_cursor(Cursor(0, is_back, pk))
        return link
