"""The admin pages of upstream servers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Value
from django.db.models.functions import Concat, StrIndex, Substr
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.safestring import SafeString

from mcp_app.admin.base import RowPageAdmin, object_button
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.upstreams import tools_page
from mcp_app.admin.upstreams.forms import ConfigurationForm, UpstreamForm
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.catalogue.changes.services import may_publish
from mcp_app.catalogue.upstreams import bringing, importing, refreshing, storing
from mcp_app.catalogue.upstreams.configurations import ConfiguredServer
from mcp_app.catalogue.upstreams.entries import entries_of
from mcp_app.interface.links import user_connections_page
from mcp_app.interface.text import marked
from mcp_app.models import Upstream
from mcp_app.protocol.client.faults import UpstreamFault

ADD = ("mcp_app.view_upstream", "mcp_app.add_upstream")
CHANGE = ("mcp_app.view_upstream", "mcp_app.change_upstream")
REFRESH = (*CHANGE, "mcp_app.change_tool")
IMPORT = (*CHANGE, "mcp_app.add_tool")
REMOVE = ("mcp_app.view_upstream", "mcp_app.delete_upstream", "mcp_app.delete_tool")
MAX_SHOWN = 20
# The URL without its query, whose values nobody may search for.
PLACE = Substr("url", 1, StrIndex(Concat("url", Value("?")), Value("?")) - 1)


@admin.register(Upstream)
class UpstreamAdmin(RowPageAdmin[Upstream]):
    """Admin pages of servers. Their entries are published like all others."""

    change_list_template = "mcp_admin/upstreams.html"
    list_display = ("name", "title_shown", "health", "entries", "address", "listed_shown")
    list_display_links = ("name",)
    search_fields = ("name", "title", "place", "command")
    search_help_text = "Name, title, URL or command"
    actions = None

    title_shown = text_column("title", "title", ordering="title", empty="-")
    address = text_column("URL or command", "address")
    listed_shown = time_column("lists read", "listed_at")

    @admin.display(description="status")
    def health(self, row: Upstream) -> SafeString | str:
        """Return the outcome of the last request as a badge."""
        return tools_page.health_of(row)["badge"] if row.enabled else "disabled"

    @admin.display(description="entries")
    def entries(self, row: Upstream) -> int:
        """Return the number of published entries."""
        return len(entries_of(row))

    def has_refresh_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may read the lists again, and save drafts of changes."""
        return request.user.has_perms(REFRESH)

    def has_import_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may save drafts of new entries."""
        return request.user.has_perms(IMPORT)

    def has_remove_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may delete a server with its entries."""
        return request.user.has_perms(REMOVE)

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).defer("listed").annotate(place=PLACE)

    def get_urls(self) -> list[URLPattern]:
        settings = self.admin_site.admin_view(self.settings_view)
        name = "mcp_app_upstream_settings"
        bring = self.admin_site.admin_view(self.bring_view)
        return [
            path("configuration/", bring, name="mcp_app_upstream_bring"),
            path("<path:object_id>/settings/", settings, name=name),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list, with a button to add a server."""
        buttons = {"add_url": self.page_url("add"), "bring_url": self.page_url("bring")}
        context = {**(buttons if request.user.has_perms(ADD) else {}), **(extra_context or {})}
        return super().changelist_view(request, context)

    def bring_view(self, request: HttpRequest) -> HttpResponse:
        """Show the form for a client's configuration (GET), or add its servers (POST)."""
        if not request.user.has_perms(ADD):
            raise PermissionMissing(*ADD)
        form = ConfigurationForm(request.POST if request.method == "POST" else None)
        servers = form.servers() if form.is_bound and form.is_valid() else []
        if servers:
            self._add_servers(request, servers)
            return HttpResponseRedirect(self.page_url("changelist"))
        title = "Add servers from a configuration"
        context = {**self.object_context(request, title), "form": form, "back": self.page_url("changelist")}
        return TemplateResponse(request, "mcp_admin/upstream_bring.html", context)

    def _add_servers(self, request: HttpRequest, servers: list[ConfiguredServer]) -> None:
        added, refused = bringing.add_servers(servers=servers, actor=request.user)
        if added:
            names = ", ".join(row.name for row in added)
            text = f"Added {names}. Open each server to read its lists and choose entries."
            self.message_user(request, marked(text), messages.SUCCESS)
        for name, reason in list(refused.items())[:MAX_SHOWN]:
            self.message_user(request, marked(f"Not added: {name}. {reason}"), messages.WARNING)
        stored = {row.name for row in added}
        for server in servers:
            if server.name in stored and server.open_headers:
                names = ", ".join(server.open_headers)
                text = f"{server.name} needs {names}, without a value in the file: choose a credential."
                self.message_user(request, marked(text), messages.WARNING)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Show the form of a new server (GET), or store it and read its lists (POST)."""
        if not request.user.has_perms(ADD):
            raise PermissionMissing(*ADD)
        form = UpstreamForm(request)
        if request.method == "POST" and (row := form.stored()) is not None:
            self._read_lists(request, row)
            return HttpResponseRedirect(self.page_url("change", row))
        return self._form_page(request, form, "Add upstream server")

    def settings_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the settings of a server (GET), or change them (POST)."""
        row = self.object_to_view(request, object_id)
        if row is None:
            return self.not_there(request, object_id)
        if not request.user.has_perms(CHANGE):
            raise PermissionMissing(*CHANGE)
        form = UpstreamForm(request, row)
        if request.method == "POST" and form.stored() is not None:
            self.message_user(request, "Saved.", messages.SUCCESS)
            return HttpResponseRedirect(self.page_url("change", row))
        return self._form_page(request, form, f"Edit {marked(row)}", row)

    def row_page(self, request: HttpRequest, row: Upstream) -> HttpResponse:
        """Show what a server lists, and the changes since its approval."""
        names = ("change", "settings", "refresh", "select", "publish", "remove")
        context = {
            **self.object_context(request, f"Upstream server {marked(row)}", row),
            **tools_page.context_of(row),
            "connected": row.connections.count() if row.user_connections else 0,
            "connections_url": user_connections_page(request.user, upstream__id__exact=str(row.pk)),
            "may_change": request.user.has_perms(CHANGE),
            "may_refresh": self.has_refresh_permission(request),
            "may_import": self.has_import_permission(request),
            "may_publish": self._may_publish(request),
            "may_remove": self.has_remove_permission(request),
            "addresses": {name: self.page_url(name, row) for name in names},
        }
        response = TemplateResponse(request, "mcp_admin/upstream.html", context)
        response.headers["Cache-Control"] = "no-store"
        return response

    @object_button("refresh", "refresh")
    def refresh(self, request: HttpRequest, row: Upstream) -> HttpResponse:
        """Read the lists of a server again."""
        self._read_lists(request, row)
        return HttpResponseRedirect(self.page_url("change", row))

    @object_button("select", "import")
    def select(self, request: HttpRequest, row: Upstream) -> HttpResponse:
        """Save drafts of the selected items."""
        done = importing.import_items(upstream=row, keys=request.POST.getlist("tools"), actor=request.user)
        self._skipped(request, done.skipped)
        if done.drafts:
            text = f"Saved {len(done.drafts)} drafts. Clients do not see them until they are published."
            self.message_user(request, text, messages.SUCCESS)
        elif not done.skipped:
            self.message_user(request, "Select at least one item.", messages.WARNING)
        return HttpResponseRedirect(self.page_url("change", row))

    @object_button("publish")
    def publish(self, request: HttpRequest, row: Upstream) -> HttpResponse:
        """Publish all drafts of new and changed entries of the server."""
        if not self._may_publish(request):
            raise PermissionDenied
        try:
            revision = importing.publish_pending(upstream=row, actor=request.user)
        except ValidationError as error:
            text = f"Nothing was published. {marked(' '.join(error.messages))}"
            self.message_user(request, text, messages.ERROR)
        else:
            text = f"Published as revision {revision}. Clients are notified now."
            self.message_user(request, text if revision else "No drafts.", messages.SUCCESS)
        return HttpResponseRedirect(self.page_url("change", row))

    @object_button("remove", "remove")
    def remove(self, request: HttpRequest, row: Upstream) -> HttpResponse:
        """Delete a server with its entries."""
        number = storing.delete_upstream(upstream=row, actor=request.user)
        text = f"Deleted {marked(row)} and its {number} entries."
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(self.page_url("changelist"))

    def _may_publish(self, request: HttpRequest) -> bool:
        may = self.has_import_permission(request) and self.has_refresh_permission(request)
        return may and may_publish(request.user)

    def _read_lists(self, request: HttpRequest, row: Upstream) -> None:
        try:
            done = refreshing.refresh(upstream=row, actor=request.user)
        except UpstreamFault as fault:
            text = f"The lists were not read: the server {row.name} {fault}"
            self.message_user(request, marked(text), messages.ERROR)
            return
        self._skipped(request, done.skipped)
        parts = [done.counted()]
        parts += [f"{len(done.drafts)} changed"] if done.drafts else []
        parts += [f"{len(done.gone)} gone"] if done.gone else []
        self.message_user(request, f"Read: {', '.join(parts)}.", messages.SUCCESS)

    def _skipped(self, request: HttpRequest, skipped: dict[str, str]) -> None:
        for name, reason in list(skipped.items())[:MAX_SHOWN]:
            self.message_user(request, marked(f"Skipped {name}: {reason}"), messages.WARNING)
        if len(skipped) > MAX_SHOWN:
            text = f"{len(skipped) - MAX_SHOWN} more were skipped."
            self.message_user(request, text, messages.WARNING)

    def _form_page(
        self, request: HttpRequest, form: UpstreamForm, title: str, row: Upstream | None = None
    ) -> HttpResponse:
        back = self.page_url("changelist") if row is None else self.page_url("change", row)
        button = "Save" if row is not None else "Add and read its lists"
        context = {**self.object_context(request, title, row), "form": form, "button": button, "back": back}
        return TemplateResponse(request, "mcp_admin/upstream_form.html", context)
