"""The project's URLs and a page that fails."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import path

from mcpsite.urls import handler400, handler403, handler404, handler500
from mcpsite.urls import urlpatterns as _urls

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]


def _broken(request: HttpRequest) -> Any:
    raise RuntimeError("This page always fails.")


urlpatterns = [path("broken/", _broken), *_urls]
