"""The site's pages for the statuses 400, 403, 404 and 500.

Signed-in staff get a page in the frame of the admin, with the missing permission and a way on. All others
get a plain page that reveals nothing. Below the URL of the API, the response is a problem document.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_permission_codename
from django.contrib.auth.models import Permission
from django.db import connections
from django.db.models import F, Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import add_never_cache_headers

from mcp_app.api import problems
from mcp_app.interface.text import marked
from mcpsite.pages import is_database_fault

FRAME = "error_in_frame.html"
# The permission that a page of a model needs, if it is not the permission to view.
ACTIONS = {"add": "add", "delete": "delete"}
PROBLEMS = {400: problems.MALFORMED, 403: "Permission denied.", 404: "Not found.", 500: problems.BROKEN}

log = logging.getLogger("mcp.pages")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Handle requests that Django rejects: a list with an unknown filter, or a wrong Host."""
    return _answer(request, 400, "Bad request")


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Handle PermissionDenied."""

    def about() -> dict[str, Any]:
        return {"missing": _missing(request, exception), "reason": marked(exception)[:400]}

    return _answer(request, 403, "Permission denied", about)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Handle Http404 and unknown URLs."""
    return _answer(request, 404, "Page not found")


def server_error(request: HttpRequest) -> HttpResponse:
    """Handle an unexpected exception. The page needs neither the database nor a context processor."""
    return _answer(request, 500, "Server error")


class _Superuser:
    """A user with every permission, for asking whether a permission would open a page."""

    is_active = is_staff = is_superuser = is_authenticated = True

    def has_perm(self, *_: Any) -> bool:
        return True

    has_perms = has_module_perms = has_perm


def _answer(
    request: HttpRequest, status: int, title: str, about: Callable[[], dict[str, Any]] = dict
) -> HttpResponse:
    if problems.is_api(request):
        return problems.document(status, PROBLEMS[status])
    page = _framed(request, status, title, about) or render_to_string(f"{status}.html", {"title": title})
    response = HttpResponse(page, status=status)
    add_never_cache_headers(response)
    return response


def _framed(request: HttpRequest, status: int, title: str, about: Callable[[], dict[str, Any]]) -> str:
    """Return the page for signed-in staff, or "" for other visitors and if the frame cannot be rendered."""
    # Scripts do not show the page, and a fault of the database would repeat itself.
    is_script = "text/html" not in request.headers.get("Accept", "")
    if is_script or is_database_fault(request) or not hasattr(request, "user"):
        return ""
    try:
        if not admin.site.has_permission(request):
            return ""
        context = {
            **admin.site.each_context(request),
            **about(),
            "title": title,
            "frame": FRAME,
            "back": _list_of(request, status),
        }
        return render_to_string(f"{status}.html", context, request)
    except Exception:
        log.exception("The page for status %s could not be shown in the frame of the admin.", status)
        return ""
    finally:
        _close_connections()


def _close_connections() -> None:
    """Close the expired connections of this thread, because nothing else does in the threads of handlers."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def _missing(request: HttpRequest, exception: Exception) -> list[tuple[str, str]]:
    """Return the label and the name of each permission that the user lacks for the page, as far as known."""
    names: Sequence[str] = getattr(exception, "permissions", ()) or _needed(request)
    lacking = [name for name in names if not request.user.has_perm(name)]
    named = Permission.objects.annotate(whole=Concat("content_type__app_label", Value("."), F("codename")))
    return list(named.filter(whole__in=lacking).values_list("name", "whole"))


def _needed(request: HttpRequest) -> list[str]:
    """Return the permissions that the page of a model needs, without those that would not open it."""
    model_admin, page = _admin_page(request)
    if model_admin is None:
        return []
    opts, everything = model_admin.opts, copy(request)
    everything.user = _Superuser()  # type: ignore[assignment]
    actions = [ACTIONS.get(page, "view"), *(["change"] if request.method == "POST" else [])]
    return [
        f"{opts.app_label}.{get_permission_codename(action, opts)}"
        for action in actions
        if getattr(model_admin, f"has_{action}_permission")(everything)
    ]


def _list_of(request: HttpRequest, status: int) -> dict[str, str] | None:
    """Return the address and the name of the list to which the page belongs, if the user may view it.

    The list itself is a way on only without the filter because of which the request was rejected.
    """
    model_admin, page = _admin_page(request)
    is_same = page == "changelist" and status != 400
    if model_admin is None or is_same or not model_admin.has_view_permission(request):
        return None
    opts = model_admin.opts
    url = reverse(f"{admin.site.name}:{opts.app_label}_{opts.model_name}_changelist")
    return {"url": url, "name": str(opts.verbose_name_plural)}


def _admin_page(request: HttpRequest) -> tuple[Any, str]:
    """Return the admin of the model to which the requested page belongs, and the name of the page."""
    match = request.resolver_match
    if match is not None and admin.site.name in match.namespaces:
        for model, model_admin in admin.site._registry.items():
            base = f"{model._meta.app_label}_{model._meta.model_name}_"
            if (match.url_name or "").startswith(base):
                return model_admin, (match.url_name or "").removeprefix(base)
    return None, ""
