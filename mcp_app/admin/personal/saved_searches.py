"""The page of saved searches, and the views that open and change a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from mcp_app.admin import undo
from mcp_app.admin.base import ModelAdmin
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.interface.text import marked
from mcp_app.message_log.search.language import LONGEST
from mcp_app.message_log.search.saved import (
    LONGEST_NAME,
    MOST,
    READS,
    SHARES,
    delete_search,
    rename_search,
    restore_search,
    save_search,
    searches_of,
    share_search,
)
from mcp_app.models import Message, SavedSearch

# Limits the length of the page, because administrators may share any number of searches.
MOST_LISTED: Final = 500
# The query parameter with the search, on the pages that link to this page.
PARAMETER: Final = "q"


class SavedSearches(ModelAdmin[Message]):
    """Pages of saved searches. This mixin adds them to the pages of the log."""

    def get_urls(self) -> list[URLPattern]:
        views: tuple[tuple[str, str, Callable[..., HttpResponse]], ...] = (
            ("searches/", "searches", self.searches_view),
            ("searches/undo/", "search_undo", self.undo_search_view),
            ("searches/<int:pk>/", "search", self.search_view),
            ("searches/<int:pk>/rename/", "search_rename", self.rename_search_view),
            ("searches/<int:pk>/share/", "search_share", self.share_search_view),
            ("searches/<int:pk>/delete/", "search_delete", self.delete_search_view),
        )
        pages = [
            path(place, self.admin_site.admin_view(view), name=f"mcp_app_message_{name}")
            for place, name, view in views
        ]
        return pages + super().get_urls()

    def searches_view(self, request: HttpRequest) -> HttpResponse:
        """List the user's own searches and the shared ones. A POST saves a new search."""
        if not request.user.has_perm(READS):
            raise PermissionMissing(READS)
        if request.method == "POST":
            return self._save(request)
        rows = searches_of(request.user).select_related("user").order_by("name", "pk")[:MOST_LISTED]
        context = {
            **self.object_context(request, "Saved searches"),
            "own": [row for row in rows if row.user_id == request.user.pk],
            "others": [row for row in rows if row.user_id != request.user.pk],
            "may_share": request.user.has_perm(SHARES),
            "has_live": _is_live_served(),
            "longest": LONGEST_NAME,
            "longest_text": LONGEST,
            "most": MOST,
        }
        return TemplateResponse(request, "mcp_admin/searches.html", context)

    def search_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Redirect to the results of a search in the log. With ``?in=console``, the log is live."""
        search = self._found(request, pk)
        if search is None:
            return self._missing(request)
        live = {"live": "1"} if request.GET.get("in") == "console" and _is_live_served() else {}
        return HttpResponseRedirect(f"{self.page_url('changelist')}?{urlencode({**live, 'q': search.text})}")

    def rename_search_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Rename one of the user's saved searches."""
        name = request.POST.get("name", "")
        return self._altered(
            request, pk, lambda search: rename_search(search=search, user=request.user, name=name), "renamed"
        )

    def share_search_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Share one of the user's saved searches, or stop sharing it."""
        shared = request.POST.get("shared") == "1"
        return self._altered(
            request,
            pk,
            lambda search: share_search(search=search, user=request.user, shared=shared),
            "shared" if shared else "no longer shared",
        )

    def delete_search_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Delete one of the user's saved searches and offer an undo."""

        def delete(search: SavedSearch) -> str:
            fields = ("pk", "name", "text", "shared")
            note = undo.signed_action(request, "search", {name: getattr(search, name) for name in fields})
            delete_search(search=search, user=request.user)
            return note

        return self._altered(request, pk, delete, "deleted")

    def undo_search_view(self, request: HttpRequest) -> HttpResponse:
        """Restore the deleted search that the submitted note describes."""
        if not request.user.has_perm(READS):
            raise PermissionMissing(READS)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        note = undo.read(request, "search")
        if note is None:
            self.message_user(request, "This can no longer be undone.", messages.WARNING)
            return HttpResponseRedirect(self.page_url("searches"))
        try:
            search = restore_search(user=request.user, **note)
            self.message_user(request, f"The search {marked(search.name)} was restored.", messages.SUCCESS)
        except ValidationError as error:
            self.message_user(request, marked(" ".join(error.messages)), messages.ERROR)
        return HttpResponseRedirect(self.page_url("searches"))

    def _save(self, request: HttpRequest) -> HttpResponse:
        text, following = request.POST.get("text", ""), request.POST.get("next", "")
        try:
            search = save_search(user=request.user, name=request.POST.get("name", ""), text=text)
            self.message_user(request, f"The search {marked(search.name)} was saved.", messages.SUCCESS)
        except ValidationError as error:
            self.message_user(request, marked(" ".join(error.messages)), messages.ERROR)
        if not url_has_allowed_host_and_scheme(following, {request.get_host()}, request.is_secure()):
            return HttpResponseRedirect(self.page_url("searches"))
        asked = {"live": "1"} if request.POST.get("live") else {}
        if text and request.POST.get("parameter", "") == PARAMETER:
            asked[PARAMETER] = text[:LONGEST]
        return HttpResponseRedirect(f"{following.partition('?')[0]}?{urlencode(asked)}")

    def _altered(
        self, request: HttpRequest, pk: int, alter: Callable[[SavedSearch], str | None], done: str
    ) -> HttpResponse:
        """Change a search and show the result. If ``alter`` returns a note, an undo is offered."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        search = self._found(request, pk)
        if search is None:
            return self._missing(request)
        name = marked(search.name)
        try:
            note = alter(search)
            text = f"The search {name} was {done}."
            if note:
                text = undo.with_undo(request, text, self.page_url("search_undo"), note)
            self.message_user(request, text, messages.SUCCESS)
        except ValidationError as error:
            self.message_user(request, marked(" ".join(error.messages)), messages.ERROR)
        return HttpResponseRedirect(self.page_url("searches"))

    def _found(self, request: HttpRequest, pk: int) -> SavedSearch | None:
        """Return a search of the user or a shared search, or None if there is none with this key."""
        if not request.user.has_perm(READS):
            raise PermissionMissing(READS)
        return searches_of(request.user).filter(pk=pk).first() if pk < 2**63 else None

    def _missing(self, request: HttpRequest) -> HttpResponse:
        self.message_user(request, "This saved search does not exist, or was deleted.", messages.WARNING)
        return HttpResponseRedirect(self.page_url("searches"))


def _is_live_served() -> bool:
    """Return True if the project serves the live console."""
    try:
        return bool(reverse("mcp_console:messages"))
    except NoReverseMatch:
        return False
