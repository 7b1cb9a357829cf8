"""Refusal of regular expressions in query strings of the admin."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin

PATTERNS: Final = ("__regex", "__iregex")


class PatternsMiddleware(MiddlewareMixin):
    """A middleware that refuses lookups by pattern in all lists of the admin, including those of other apps.

    Django accepts lookups for a model's own fields. SQLite matches patterns inside the web process, so one
    expensive pattern would block all requests of that process.
    """

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """Raise SuspiciousOperation for a lookup by pattern."""
        match = request.resolver_match
        if match is None or "admin" not in match.app_names:
            return
        for name in request.GET:
            if name.endswith(PATTERNS):
                raise SuspiciousOperation(f"Filtering by {name} not allowed")
