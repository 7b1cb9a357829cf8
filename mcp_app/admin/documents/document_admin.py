"""The admin pages of OpenAPI documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.forms import Media
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from mcp_app.admin.base import RowPageAdmin, object_button
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.documents import survey_page, update_page
from mcp_app.admin.documents.forms import FileForm, NewDocumentForm, SelectionForm
from mcp_app.admin.markup import badge
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.catalogue.changes.services import may_publish
from mcp_app.catalogue.documents import importing, storing, updating
from mcp_app.catalogue.documents.tools import tools_of
from mcp_app.catalogue.sources.http.openapi.reading import DocumentError
from mcp_app.catalogue.sources.http.openapi.servers import servers_of
from mcp_app.execution.background import documents
from mcp_app.interface.text import marked
from mcp_app.models import ApiDocument

TONES = {"ready": "good", "reading": "info", "failed": "bad"}
NEEDED = ("mcp_app.view_apidocument", "mcp_app.add_apidocument", "mcp_app.add_tool")
MAX_SHOWN = 50


@admin.register(ApiDocument)
class ApiDocumentAdmin(RowPageAdmin[ApiDocument]):
    """Admin pages of documents. Importing operations also needs the permission to add tools."""

    audit_kind = "document"
    change_list_template = "mcp_admin/api_documents.html"
    list_display = ("name", "title_shown", "state_shown", "operations", "tools", "fetched")
    list_display_links = ("name",)
    search_fields = ("name", "title", "url")
    search_help_text = "Name, title or URL"
    actions = None

    def has_import_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may import operations as drafts."""
        return all(map(request.user.has_perm, NEEDED))

    def has_update_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may save drafts of changed tools."""
        return request.user.has_perms(("mcp_app.change_apidocument", "mcp_app.change_tool"))

    def has_remove_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may delete a document."""
        return request.user.has_perm("mcp_app.delete_apidocument")

    title_shown = text_column("title", "title", ordering="title", empty="–")
    fetched = time_column("fetched", "fetched_at")

    @admin.display(description="status", ordering="state")
    def state_shown(self, row: ApiDocument) -> SafeString:
        """Return the state as a badge."""
        state = "update" if row.newer is not None else row.state
        return badge(state, TONES.get(state, "warn"))

    @admin.display(description="tools")
    def tools(self, row: ApiDocument) -> int:
        """Return the number of tools imported from the document."""
        return len(tools_of(row))

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).defer("content", "survey", "incoming")

    def get_urls(self) -> list[URLPattern]:
        wrap, base = self.admin_site.admin_view, "mcp_app_apidocument"
        return [
            path("import/", wrap(self.import_view), name=f"{base}_import"),
            path("<path:object_id>/operations/", wrap(self.operations_view), name=f"{base}_operations"),
            path("<path:object_id>/update/", wrap(self.update_view), name=f"{base}_update"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list, with a button to import a document."""
        site = self.admin_site.name
        address = reverse(f"{site}:mcp_app_apidocument_import") if self.has_import_permission(request) else ""
        return super().changelist_view(request, {"import_url": address, **(extra_context or {})})

    # Import.

    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Show the form (GET), or store the document and show its operations (POST)."""
        if not self.has_import_permission(request):
            raise PermissionMissing(*NEEDED)
        posted = (request.POST, request.FILES) if request.method == "POST" else ()
        form = NewDocumentForm(*posted)
        if form.is_valid():
            row = self._stored(request, form, lambda: self._received(request, form.cleaned_data))
            if row is not None:
                return HttpResponseRedirect(self.page_url("change", row))
        context = {**self._context(request, "Import an OpenAPI document"), "form": form, "button": "Continue"}
        return TemplateResponse(request, "mcp_admin/api_document_import.html", context)

    def _received(self, request: HttpRequest, given: dict[str, Any]) -> ApiDocument:
        return documents.receive(
            data=given["content"], actor=request.user, url=given["url"], prefix=given["tool_prefix"]
        )

    def _stored(
        self, request: HttpRequest, form: forms.Form, store: Callable[[], ApiDocument]
    ) -> ApiDocument | None:
        """Call ``store``. Show its refusal in the form."""
        try:
            return store()
        except DocumentError as error:
            form.add_error(None, marked(error))
        except ValidationError as error:
            form.add_error(None, error.messages)
        return None

    # The page of a document.

    def row_page(self, request: HttpRequest, row: ApiDocument) -> HttpResponse:
        """Show the operations of a document, or the progress of reading it."""
        context = {
            **self._context(request, f"OpenAPI document {marked(row)}", row),
            **survey_page.context_of(request, row),
            "newer_file": FileForm(auto_id="mcp-newer-%s")["file"],
            "may_import": self.has_import_permission(request),
            "may_update": self.has_update_permission(request),
            "may_remove": self.has_remove_permission(request),
            "may_publish": may_publish(request.user),
            "addresses": self._addresses(row),
        }
        response = TemplateResponse(request, "mcp_admin/api_document.html", context)
        response.headers["Cache-Control"] = "no-store"
        return response

    def operations_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the survey as JSON, or the progress while the document is read."""
        row = self.object_to_view(request, object_id)
        if row is None:
            return JsonResponse({"problem": "The document was deleted."}, status=404)
        response = JsonResponse(survey_page.operations_of(row))
        response.headers["Cache-Control"] = "no-store"
        return response

    @object_button("select", "import")
    def select(self, request: HttpRequest, row: ApiDocument) -> HttpResponse:
        """Save drafts of the selected operations. A refused form is shown again as it was entered."""
        servers = servers_of(storing.document_of(row)) if row.content is not None else []
        form = SelectionForm(request.POST, servers=servers)
        if not form.is_valid():
            for problems in form.errors.values():
                self.message_user(request, marked(" ".join(map(str, problems))), messages.ERROR)
            return self.row_page(request, row)
        given = form.cleaned_data
        choices = survey_page.chosen(request, given["server"])
        try:
            storing.save_choices(row=row, actor=request.user, **choices)
            names = given["selection"]
            done = importing.import_operations(
                row=row,
                keys=names,
                names=names,
                content_types=given["content_types"],
                actor=request.user,
            )
        except (DocumentError, ValidationError) as error:
            self.message_user(request, f"Nothing was saved. {importing.reason_of(error)}", messages.ERROR)
            return self.row_page(request, row)
        self._report(request, done.skipped)
        if not done.drafts:
            return self.row_page(request, row)
        text = f"{_drafts(done)} saved. Clients do not see them until they are published."
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(self.page_url("change", row))

    @object_button("publish")
    def publish(self, request: HttpRequest, row: ApiDocument) -> HttpResponse:
        """Publish all drafts of new tools and of accepted changes of the document."""
        if not (self.has_import_permission(request) and may_publish(request.user)):
            raise PermissionDenied
        try:
            revision = importing.publish_imported(row=row, actor=request.user)
        except ValidationError as error:
            self.message_user(request, f"Nothing was published. {importing.reason_of(error)}", messages.ERROR)
        else:
            text = (
                f"Published as revision {revision}. Clients are notified now." if revision else "No drafts."
            )
            self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(self.page_url("change", row))

    # Updates.

    @object_button("fetch", "update")
    def fetch(self, request: HttpRequest, row: ApiDocument) -> HttpResponse:
        """Fetch or upload the newer version of a document."""
        form = FileForm({**request.POST.dict(), "url": ""}, request.FILES)
        data = None
        try:
            if request.FILES or request.POST.get("text"):
                if not form.is_valid():
                    raise DocumentError(" ".join(" ".join(map(str, each)) for each in form.errors.values()))
                data = form.cleaned_data["content"]
            row = documents.receive_newer(row=row, data=data, actor=request.user)
        except DocumentError as error:
            self.message_user(request, marked(error), messages.ERROR)
            return HttpResponseRedirect(self.page_url("change", row))
        is_read = row.state != ApiDocument.State.READING
        return HttpResponseRedirect(self.page_url("update" if is_read else "change", row))

    def update_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the differences between a document and its tools (GET), or accept some of them (POST)."""
        row = self.object_to_view(request, object_id)
        if row is None:
            return self.not_there(request, object_id)
        if not self.has_update_permission(request):
            raise PermissionMissing("mcp_app.change_apidocument", "mcp_app.change_tool")
        try:
            if request.method == "POST":
                accepted = request.POST.getlist("accepted")
                seen = request.POST.get("seen", "")
                done = updating.update_tools(row=row, accepted=accepted, actor=request.user, seen=seen)
                self._report(request, done.skipped)
                text = f"Updated. {_drafts(done)} saved." if done.drafts else "Updated."
                self.message_user(request, text, messages.SUCCESS)
                return HttpResponseRedirect(self.page_url("change", row))
            plan = updating.planned(row)
        except DocumentError as error:
            self.message_user(request, marked(error), messages.ERROR)
            return HttpResponseRedirect(self.page_url("change", row))
        context = {
            **self._context(request, f"Changes of {marked(row)}", row),
            **update_page.context_of(plan),
            "row": row,
            "addresses": self._addresses(row),
        }
        return TemplateResponse(request, "mcp_admin/api_document_update.html", context)

    @object_button("remove", "remove")
    def remove(self, request: HttpRequest, row: ApiDocument) -> HttpResponse:
        """Delete a document. Its tools and drafts stay."""
        storing.delete_document(row=row, actor=request.user)
        self.message_user(request, f"Deleted {marked(row)}. Its tools and drafts stay.", messages.SUCCESS)
        return HttpResponseRedirect(self.page_url("changelist"))

    def _report(self, request: HttpRequest, skipped: dict[str, str]) -> None:
        for key, reason in list(skipped.items())[:MAX_SHOWN]:
            self.message_user(request, marked(f"Skipped {key}: {reason}"), messages.WARNING)
        if len(skipped) > MAX_SHOWN:
            text = f"{len(skipped) - MAX_SHOWN} more operations were skipped."
            self.message_user(request, text, messages.WARNING)

    def _addresses(self, row: ApiDocument) -> dict[str, str]:
        names = ("change", "operations", "select", "publish", "fetch", "update", "remove")
        return {name: self.page_url(name, row) for name in names}

    def _context(self, request: HttpRequest, title: str, row: ApiDocument | None = None) -> dict[str, Any]:
        own = Media(css={"all": ["mcp_app/openapi.css"]}, js=["mcp_app/openapi.js"])
        return {**self.object_context(request, title, row), "media": self.media + own}


def _drafts(done: importing.Imported | updating.Updated) -> str:
    """Return the number of saved drafts in words."""
    return f"{len(done.drafts)} draft{'s' if len(done.drafts) != 1 else ''}"
