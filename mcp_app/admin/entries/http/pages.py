"""The pages on which people make and change HTTP tools, and try them before publishing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import orjson
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.contrib.auth import get_permission_codename
from django.core import signing
from django.core.exceptions import PermissionDenied, ValidationError
from django.forms import Media, Script
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from mcp_app.admin.base import ModelAdmin
from mcp_app.admin.entries.entry_drafts import draft_as_seen
from mcp_app.admin.entries.http.drafts import Edited, edited, is_of_request
from mcp_app.admin.entries.http.form import HttpToolForm, filled_in, initial_of, messages_of
from mcp_app.admin.entries.http.preview import preview_of
from mcp_app.admin.entries.http.trying import Outcome
from mcp_app.auth.bench import TRY
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.catalogue.changes import pending_drafts, revisions
from mcp_app.catalogue.changes.drafts import save_draft
from mcp_app.catalogue.changes.services import may_publish, save_entry
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.sources.http.arguments import schema_of
from mcp_app.catalogue.sources.http.curl import PasteError, curl_line
from mcp_app.catalogue.sources.http.entered import EnteredError, cookies_of
from mcp_app.catalogue.sources.http.har import read_pasted
from mcp_app.catalogue.sources.http.plan import RequestPlan
from mcp_app.catalogue.sources.http.proposed import with_arguments, with_values
from mcp_app.catalogue.sources.http.source import HTTP, input_schema
from mcp_app.credentials.services import NOT_ALLOWED, USE
from mcp_app.interface import links
from mcp_app.interface.text import marked
from mcp_app.models import Credential, Draft, Tool, audit

# A module runs when the page is complete.
SCRIPT: Final[Any] = Script("mcp_app/http_tool.js", type="module")
_SALT: Final = "mcp.http-tool-tried"


class HttpToolPages(ModelAdmin[Tool]):
    """The pages of HTTP tools, mixed into the admin of tools."""

    def get_urls(self) -> list[URLPattern]:
        base = f"{self.opts.app_label}_{self.opts.model_name}"
        view = self.admin_site.admin_view(self.http_view)
        return [
            path("http/", view, name=f"{base}_http"),
            path("<path:object_id>/http/", view, name=f"{base}_http_change"),
            *super().get_urls(),
        ]

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Add the address of the form for the request of an HTTP tool."""
        context = super().form_context(request, object_id)
        entry = self.get_object(request, unquote(object_id))
        if entry is None or not HTTP.owns(entry) or not self.has_change_permission(request, entry):
            return context
        draft = self._draft_query(request, entry)
        return {**context, "request_url": f"{self.page_url('http_change', entry)}{draft}"}

    def draft_form_url(self, draft: Draft, entry: Tool | None) -> str:
        """Return the URL of the form that edits a draft: the form of the request, if it changes a request."""
        if not is_of_request(draft, entry):
            return str(super().draft_form_url(draft, entry))  # type: ignore[misc]
        return self.page_url("http") if entry is None else self.page_url("http_change", entry)

    def _draft_of(self, request: HttpRequest, entry: Tool | None) -> Draft | None:
        return self.shown_draft(request, entry)  # type: ignore[attr-defined, no-any-return]

    def _draft_query(self, request: HttpRequest, entry: Tool | None) -> str:
        shown = self._draft_of(request, entry)
        return f"?draft={shown.pk}" if shown is not None else ""

    def http_view(self, request: HttpRequest, object_id: str | None = None) -> HttpResponse:
        """Show the form of a new or stored HTTP tool, and do what the pressed button says."""
        entry = None
        if object_id is not None:
            entry = self.object_to_view(request, object_id)
            if entry is None or not HTTP.owns(entry):
                return self.not_there(request, object_id)
        may_see, may_change = self.has_view_permission, self.has_change_permission
        may = self.has_add_permission(request) if entry is None else may_change(request, entry)
        if not may or not may_see(request, entry):
            needed = ("view", "add" if entry is None else "change")
            label, model = self.opts.app_label, self.opts
            raise PermissionMissing(
                *(f"{label}.{get_permission_codename(action, model)}" for action in needed)
            )
        tool = edited(entry, self._draft_of(request, entry))
        if request.method == "POST":
            return self._posted_http(request, tool)
        row = tool.row
        initial = {"arguments": {}} if row is None else initial_of(row)
        if initial is None:
            text = "The request form cannot show all of this request. Change it here."
            self.message_user(request, text, messages.INFO)
            return HttpResponseRedirect(self._all_fields_url(request, entry))
        seen = revisions.last_revision(entry) if entry is not None else 0
        form = tool.form(initial={**initial, "seen": seen}, user=request.user)
        if row is not None:
            plan = RequestPlan.read(row.request)
            form.show(plan, input_schema(plan, row.input_schema), dict.fromkeys(cookies_of(plan), "cookie"))
        return self._http_page(request, form, tool)

    def _all_fields_url(self, request: HttpRequest, entry: Tool | None) -> str:
        page = self.page_url("add") if entry is None else self.page_url("change", entry)
        return page + self._draft_query(request, entry)

    def _posted_http(self, request: HttpRequest, tool: Edited) -> HttpResponse:
        if "_fill" in request.POST:
            return self._filled_in(request, tool)
        form = tool.form(request.POST, user=request.user)
        read = form.read()
        if "_live" in request.POST:
            return JsonResponse(preview_of(form, read))
        if "_try" not in request.POST:
            form.require_name()
        if read is None or form.errors:
            return self._http_page(request, form, tool)
        if "_try" in request.POST:
            return self._try_request(request, form, tool, *read)
        return self._saved(request, form, tool, *read)

    def _filled_in(self, request: HttpRequest, tool: Edited) -> HttpResponse:
        try:
            pasted = read_pasted(request.POST.get("paste", ""))
        except PasteError as error:
            form = tool.form(request.POST, user=request.user)
            form.full_clean()
            form.errors.clear()
            form.add_error("paste", str(error))
            return self._http_page(request, form, tool)
        asked, values = pasted.entered, dict[str, Any]()
        # The page must not repeat the secrets of the pasted line.
        again = {"paste": curl_line(asked), "as_arguments": bool(request.POST.get("as_arguments"))}
        if request.POST.get("as_arguments"):
            asked, values = with_arguments(asked)
        form = tool.form(initial={**filled_in(asked, request.POST), **again}, user=request.user)
        with suppress(DefinitionError, EnteredError):
            plan = RequestPlan.read(asked.plan())
            form.show(plan, with_values(schema_of(plan), values), {})
        return self._http_page(request, form, tool, notes=pasted.notes)

    def _try_request(
        self,
        request: HttpRequest,
        form: HttpToolForm,
        tool: Edited,
        plan: RequestPlan,
        json: Mapping[str, Any],
    ) -> HttpResponse:
        """Send the request once, and show what was sent, the raw answer and the mapped answer."""
        if not request.user.has_perm(TRY):
            raise PermissionMissing(TRY)
        if plan.credential and not request.user.has_perm(USE):
            form.add_error("credential", NOT_ALLOWED)
            return self._http_page(request, form, tool)
        if not plan.is_safe and "_sure" not in request.POST:
            return self._http_page(request, form, tool, asks=True)
        arguments, outcome = form.cleaned_data.get("arguments") or {}, Outcome()
        schema = form.schema(plan)
        outcome.run(plan, schema, form.cleaned_data.get("output_schema"), arguments)
        audit(
            actor=request.user,
            action="http_tool.tried",
            object_kind="tool",
            object_key=form.cleaned_data.get("name") or (tool.entry.name if tool.entry else ""),
            detail={
                "method": plan.method,
                "origin": plan.origin,
                "path": plan.path,
                "failed": bool(outcome.problem),
            },
        )
        entered: Any = form.data.copy()  # type: ignore[attr-defined]  # A QueryDict.
        entered["tried"] = "" if outcome.problem else _mark(json)
        form.data = entered
        return self._http_page(request, form, tool, outcome=outcome)

    def _saved(
        self,
        request: HttpRequest,
        form: HttpToolForm,
        tool: Edited,
        plan: RequestPlan,
        json: Mapping[str, Any],
    ) -> HttpResponse:
        entry, read_draft = tool.entry, draft_as_seen(request.POST.get("mcp-draft", "")) or tool.draft
        as_draft = "_draft" in request.POST or read_draft is not None
        if not as_draft and not may_publish(request.user):
            raise PermissionDenied
        values = tool.values(form.values(plan, json))
        if not as_draft and "_untried" not in request.POST and not _is_tried(form, json):
            form.check(values)
            return self._http_page(request, form, tool, untried=True)
        kind: dict[str, Any] = {"kind": Tool, "actor": request.user, "source": HTTP, "entry": entry}
        seen = form.cleaned_data.get("seen") if entry is not None else None
        try:
            if as_draft:
                waiting = read_draft or (pending_drafts.draft_of(entry) if entry is not None else None)
                note = tool.draft.note if tool.draft is not None else ""
                draft = save_draft(**kind, draft=waiting, seen=seen, note=note, **values)
                address = reverse(f"{self.admin_site.name}:mcp_app_draft_change", args=[draft.pk])
                text = f"Draft of {marked(draft.key)} saved. Clients do not see it until it is published."
            else:
                row = save_entry(**kind, seen=seen, **values)
                address, text = (
                    self.page_url("change", row),
                    f"Published: {marked(row.name)}. Clients are notified now.",
                )
        except ValidationError as error:
            form.complain(messages_of(error))
            return self._http_page(request, form, tool)
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(address)

    def _http_page(self, request: HttpRequest, form: HttpToolForm, tool: Edited, **more: Any) -> HttpResponse:
        read = form.read() if form.is_bound and not form.errors else None
        preview = preview_of(form, read) if form.is_bound else None
        entry, draft = tool.entry, tool.draft
        title = "Add HTTP tool" if entry is None else f"Request of {marked(entry.name)}"
        title = title if draft is None else f"Draft of {marked(draft.key)}"
        context = {
            **self.object_context(request, title, entry),
            "form": form,
            "entry": entry,
            "draft": draft,
            "seen_draft": f"{draft.pk}:{draft.version}" if draft is not None else "",
            "form_url": request.path + self._draft_query(request, entry),
            "all_fields_url": self._all_fields_url(request, entry),
            "cancel_url": self.page_url("changelist") if entry is None else self.page_url("change", entry),
            "add_choice": self._choice(request, tool),
            "preview": preview,
            "may_publish": may_publish(request.user),
            "may_try": request.user.has_perm(TRY),
            "credentials_url": self._credentials_url(request),
            "media": self.media + form.media + Media(js=[SCRIPT]),
            "asks": False,
            "untried": False,
            "outcome": None,
            "networks_url": links.document("http-tools.md", "private-networks"),
            "notes": (),
            **more,
        }
        response = TemplateResponse(request, "mcp_admin/http_tool.html", context)
        response.headers["Cache-Control"] = "no-store"
        return response

    def _choice(self, request: HttpRequest, tool: Edited) -> list[dict[str, Any]]:
        """Return links to the forms of other new tools. A stored tool and a draft have none."""
        is_new = tool.row is None
        return self.add_choice(request, HTTP) if is_new else []  # type: ignore[attr-defined]

    def _credentials_url(self, request: HttpRequest) -> str:
        """Return the address of the list of credentials, or "" if the user may not open it."""
        name = f"{self.admin_site.name}:mcp_app_credential_changelist"
        return reverse(name) if self.may_open(request, Credential) else ""


def _digest(json: Mapping[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(json, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _mark(json: Mapping[str, Any]) -> str:
    return signing.dumps(_digest(json), salt=_SALT)


def _is_tried(form: HttpToolForm, json: Mapping[str, Any]) -> bool:
    """Return True if this request was tried with success, or is the published one."""
    entry = form.entry
    if entry is not None and entry.request == dict(json):
        return True
    try:
        return bool(signing.loads(form.cleaned_data.get("tried") or "", salt=_SALT) == _digest(json))
    except signing.BadSignature:
        return False
