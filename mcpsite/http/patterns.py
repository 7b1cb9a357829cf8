"""Refusal of regular expressions in the admin's query strings."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin

PATTERNS: Final = ("__regex", "__iregex")


class PatternsMiddleware(MiddlewareMixin):
    """The middleware that refuses pattern lookups in every admin list, including other apps'.

    Django accepts lookups on a model's own fields. SQLite matches patterns in the web process, so one
    expensive pattern would block all its requests.
    """

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """Raise SuspiciousOperation for a lookup by pattern."""
        match = request.resolver_match
        if match is None or "admin" not in match.app_names:
            return
        for name in request.GET:
            if name.endswith(PATTERNS):
                raise SuspiciousOperation(f"Filtering by {name} not allowed")
