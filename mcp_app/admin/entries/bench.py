"""The test bench of an entry: its page, its browser client's token, and snippets for other clients.

The page is an MCP client (static/mcp_app/bench). It sends its runs to ``/mcp`` like any other client.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar, Final

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.forms import Media, Script
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from mcp_app import conf
from mcp_app.admin.entries.bench_runs import logged_run, runs, served_template, subject_of
from mcp_app.admin.entries.callers import CallersPages
from mcp_app.admin.markup import badge, json_block
from mcp_app.auth.bench import TRY, TRY_AS_OTHERS, issue_bench_token
from mcp_app.auth.permissions import PermissionMissing, may_view_people
from mcp_app.catalogue.access import Giver, givers_of, holder_of, permission_of, verdict
from mcp_app.catalogue.schemas.client_forms import client_forms
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.sources.precedence import overlaid
from mcp_app.connect.address import connection_for
from mcp_app.connect.call_snippets import METHODS, call_snippets
from mcp_app.interface.links import incident_page
from mcp_app.interface.text import marked
from mcp_app.models import Message

PEOPLE_OFFERED: Final = 200
CLIENT_NAME: Final = "Test bench"
NO_RUN: Final = "The log has no such run of this entry that you may read."
Entry = Any


class BenchAdmin(CallersPages):
    """The pages of the test bench, for every kind of entry."""

    kind: ClassVar[str]
    key_field: ClassVar[str]

    def get_urls(self) -> list[URLPattern]:
        base = f"{self.opts.app_label}_{self.opts.model_name}"
        views: dict[str, Callable[..., HttpResponse]] = {
            "try": self.try_view,
            "try/token": self.token_view,
            "try/snippets": self.snippets_view,
            "try/run": self.run_view,
        }
        pages = [
            path(
                f"<path:object_id>/{place}/",
                self.admin_site.admin_view(view),
                name=f"{base}_{place.replace('/', '_')}",
            )
            for place, view in views.items()
        ]
        return pages + super().get_urls()

    def has_try_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may use the test bench.

        The user can run only those entries that the user may view.
        """
        return request.user.has_perm(TRY)

    def _tried(self, request: HttpRequest, object_id: str) -> Entry | None:
        if not self.has_try_permission(request):
            raise PermissionMissing(TRY)
        return self.object_to_view(request, object_id)

    def _key(self, entry: Entry) -> str:
        return str(getattr(entry, self.key_field))

    # The views.

    def try_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the test bench.

        ``?arguments=`` or ``?message=`` fills the form. ``&compare=`` loads a second logged message to
        compare.
        """
        entry = self._tried(request, object_id)
        if entry is None:
            return self.not_there(request, object_id)
        scripts: list[Any] = [Script("mcp_app/bench/page.js", type="module")]
        context = {
            **self.object_context(request, f"{CLIENT_NAME}: {marked(entry)}", entry),
            "entry": entry,
            "key": self._key(entry),
            "kind": self.kind,
            "entry_url": self.page_url("change", entry),
            "callers_url": self.callers_url(request, entry),
            "bench": self._page_data(request, entry),
            "client_forms": _client_cards(entry) if self.kind == "tool" else [],
            "notes": self._notes(request, entry),
            "hints": _hints(entry),
            "people": self._people(request),
            "media": self.media + Media(css={"all": ["mcp_app/bench.css"]}, js=scripts),
        }
        return TemplateResponse(request, "mcp_admin/bench.html", context)

    def token_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Issue a token for the client in the browser.

        The token is for the current user, or for the user in the parameter ``user``.
        """
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        entry = self._tried(request, object_id)
        if entry is None:
            return _failed("This entry was deleted.", 404)
        model: Any = get_user_model()
        name = request.POST.get("user", "")
        if name and not request.user.has_perm(TRY_AS_OTHERS):
            return _failed("You may not run entries as another user.", 403)
        try:
            user = model._default_manager.get_by_natural_key(name) if name else request.user
            token, ends = issue_bench_token(actor=request.user, user=user)
        except model.DoesNotExist:
            return _failed("There is no such user.", 403)
        except PermissionDenied as refused:
            return _failed(str(refused), 403)
        # The client only learns that the entry does not exist. The response contains the reason, for the
        # person who tests the entry.
        found = verdict(entry, self.kind, holder_of(user), self._givers(request, entry))
        why = "" if found.can else f"{marked(user.get_username())} cannot use it: {found.why}."
        return JsonResponse({"token": token, "ends": ends, "user": user.get_username(), "why": why})

    def _givers(self, request: HttpRequest, entry: Entry) -> list[Giver]:
        """Return the groups that grant the entry's permission.

        The list is empty if the user may not view people.
        """
        permission = permission_of(entry)
        return givers_of([permission])[permission] if may_view_people(request.user) else []

    def snippets_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return snippets that repeat a run with another client, as JSON.

        The body of the request contains the method and the params.
        """
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if self._tried(request, object_id) is None:
            return _failed("This entry was deleted.", 404)
        try:
            asked = json.loads(request.body)
            method, params = asked["method"], asked["params"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return _failed("The body must be an object with method and params.", 400)
        name = "uri" if method == "resources/read" else "name"
        if method not in METHODS or not isinstance(params, dict) or not isinstance(params.get(name), str):
            return _failed("There are no lines for such a request.", 400)
        made = call_snippets(connection_for(request), method, params)
        return JsonResponse({"snippets": [{"title": each.title, "text": each.text} for each in made]})

    def run_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the arguments and the answer of a logged run of this entry, as JSON."""
        entry = self._tried(request, object_id)
        run = self._logged(request, entry, request.GET.get("message", "")) if entry is not None else None
        return _failed(NO_RUN, 404) if run is None else JsonResponse(run)

    # The data for the page.

    def _page_data(self, request: HttpRequest, entry: Entry) -> dict[str, Any]:
        key, server = self._key(entry), conf.get().server
        may_read = request.user.has_perm("mcp_app.view_message")
        return {
            "kind": self.kind,
            "key": key,
            "schema": self.bench_schema(entry),
            "endpoint": server.path,
            "client": {"name": CLIENT_NAME, "version": server.version},
            "user": request.user.get_username(),
            "tokenUrl": self.page_url("try_token", entry),
            "snippetsUrl": self.page_url("try_snippets", entry),
            # Both addresses show logged messages, which the user must be permitted to view.
            "runUrl": self.page_url("try_run", entry) if may_read else None,
            "messageUrl": reverse(f"{self.admin_site.name}:mcp_app_message_change", args=[0])
            if may_read
            else None,
            "incidentUrl": incident_page("0" * 8) if may_read else None,
            "preset": self.preset_link(request, entry),
            "runs": runs(request.user, subject_of(self.kind, key)) if may_read else [],
            **self._prefill(request, entry),
        }

    def bench_schema(self, entry: Entry) -> Any:
        """Return a JSON Schema of the arguments.

        For a tool it is the tool's own schema. For other kinds it is an object of strings.
        """
        if self.kind == "tool":
            return source_of(entry).arguments_of(entry)
        if self.kind == "prompt":
            items = [item for item in entry.arguments if isinstance(item, dict) and item.get("name")]
            return _texts([str(item["name"]) for item in items], items)
        template = served_template(entry.uri_template) if self.kind == "template" else None
        names = list(template.names) if template else []
        return _texts(names, [{"required": True}] * len(names))

    def preset_link(self, request: HttpRequest, entry: Entry) -> dict[str, Any] | None:
        """Return the address of the form for a new preset, with the arguments that are already fixed.

        Returns None if this kind of entry has no presets.
        """
        return None

    def _prefill(self, request: HttpRequest, entry: Entry) -> dict[str, Any]:
        """Return the initial values of the form from the query string.

        ``trouble`` describes an invalid value.
        """
        filled: dict[str, Any] = {"arguments": None, "first": None, "second": None, "trouble": ""}
        text = request.GET.get("arguments")
        if text is not None:
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                filled["arguments"] = value
            else:
                filled["trouble"] = "The arguments in the address are not a JSON object."
        for name, parameter in (("first", "message"), ("second", "compare")):
            if parameter in request.GET:
                filled[name] = self._logged(request, entry, request.GET[parameter])
                if filled[name] is None:
                    filled["trouble"] = NO_RUN
        return filled

    def _logged(self, request: HttpRequest, entry: Entry, pk: str) -> dict[str, Any] | None:
        if not request.user.has_perm("mcp_app.view_message") or not (pk.isascii() and pk.isdigit()):
            return None
        message = Message.objects.filter(pk=int(pk)).first() if len(pk) <= 18 else None
        return logged_run(message, subject_of(self.kind, self._key(entry))) if message else None

    def _people(self, request: HttpRequest) -> list[str] | None:
        """Return the names of users as whom this user may run entries, the first ones in alphabetical order.

        Returns None if the user may not act as other users.
        """
        if not request.user.has_perm(TRY_AS_OTHERS):
            return None
        model: Any = get_user_model()
        users = model._default_manager.filter(is_active=True).exclude(pk=request.user.pk)
        if not getattr(request.user, "is_superuser", False):
            users = users.filter(is_superuser=False)
        names = users.order_by(model.USERNAME_FIELD).values_list(model.USERNAME_FIELD, flat=True)
        return list(names[:PEOPLE_OFFERED])

    def _notes(self, request: HttpRequest, entry: Entry) -> list[str]:
        """Return the reasons why a run would fail whatever its arguments are."""
        notes = []
        if entry.missing:
            notes.append(f"Clients are not offered this entry: {source_of(entry).gone}.")
        elif not entry.enabled:
            notes.append("This entry is disabled for all clients, including this page. Enable it to run it.")
        permission = permission_of(entry)
        if permission and not request.user.has_perm(permission):
            notes.append(f"Callers need the permission {marked(permission)}, which you do not have.")
        return notes


def _texts(names: list[str], items: list[dict[str, Any]]) -> dict[str, Any]:
    properties = {}
    for name, item in zip(names, items, strict=True):
        texts = {word: item[word] for word in ("title", "description") if isinstance(item.get(word), str)}
        properties[name] = {"type": "string", **texts}
    required = [name for name, item in zip(names, items, strict=True) if item.get("required") is True]
    return {"type": "object", "properties": properties, "required": required}


def _hints(entry: Entry) -> list[tuple[str, str]]:
    """Return a tool's annotations as badges, each a text and a tone."""
    annotations = getattr(source_of(entry).base_of(entry) or entry, "annotations", None)
    given = annotations if isinstance(annotations, dict) else {}
    hints = []
    if given.get("readOnlyHint") is True:
        hints.append(("read-only", "good"))
    elif given.get("destructiveHint") is True:
        hints.append(("destructive", "bad"))
    if given.get("idempotentHint") is True:
        hints.append(("idempotent", "plain"))
    if given.get("openWorldHint") is True:
        hints.append(("uses other systems", "warn"))
    if getattr(entry, "background", False):
        hints.append(("background", "info"))
    return hints


def _failed(text: str, status: int) -> JsonResponse:
    return JsonResponse({"error": text}, status=status)


def _client_cards(tool: Any) -> list[dict[str, Any]]:
    """Return the form of a tool for each client, prepared for display."""
    source = source_of(tool)
    texts = overlaid(source.in_force(tool), tool)
    wire = {
        "name": tool.name,
        "description": texts.get("description") or texts.get("title", ""),
        "inputSchema": source.arguments_of(tool) or {"type": "object"},
    }
    return [
        {
            "client": each.client,
            "badge": badge("refused", "bad") if each.problems else badge("accepted", "good"),
            "problems": each.problems,
            "changes": each.changes,
            "tool": json_block(each.tool) if each.tool is not None else "",
        }
        for each in client_forms(wire)
    ]
