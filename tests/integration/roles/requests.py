"""Requests of all ways: their addresses on the stored rows, and data that changes something."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from django.test import Client

from mcp_app.admin.entries.transfer import packed
from mcp_app.models import CatalogueRevision
from mcp_app.models.catalogue import ENTRY_KINDS
from tests.integration.admin.test_catalogue_pages import COMMON, LIMITS
from tests.integration.roles.rows import MODELS, Rows
from tests.integration.roles.table import KINDS, OWN, PLURALS, Way
from tests.samples.admin_seed import PASSWORD

# Placeholders for the user who sends the request, in data, and for an API key of that user, in addresses.
OWN_KEY: Final = "<who asks>"
OWN_API_KEY: Final = "<own API key>"
NEW_PASSWORD: Final = "quite another long sentence"


@dataclass(frozen=True, slots=True)
class Request:
    """A request. ``changes``: it changes stored rows.

    ``is_form``: a denied user does not always get 403, because Django's lists and forms ignore actions
    they do not offer.
    """

    address: str
    data: Any = None
    changes: bool = False
    is_form: bool = False

    def by(self, user: Any) -> Request:
        """Return the request with the placeholder replaced by the user."""
        if OWN_API_KEY in self.address:
            key = None if user is None else user.mcp_api_keys.order_by("pk").first()
            return replace(self, address=self.address.replace(OWN_API_KEY, str(key.pk if key else 0)))
        if not isinstance(self.data, dict) or OWN_KEY not in self.data.values():
            return self
        pk = getattr(user, "pk", 0)
        return replace(
            self, data={name: pk if value == OWN_KEY else value for name, value in self.data.items()}
        )

    def send(self, client: Client, method: str) -> Any:
        """Return the response.

        A streaming response is neither read nor closed: another connection would read it, and closing
        it closes the test's connection.
        """
        more = {"content_type": "application/json"} if self.address.startswith("/api/") and self.data else {}
        if isinstance(self.data, str):
            more = {"content_type": "application/json"}
        return getattr(client, method.lower())(self.address, self.data or {}, **more)


SERVER: Final = {"url": "http://127.0.0.1:1/mcp", "timeout_seconds": 60, "enabled": "on"}
LIMIT: Final = {"who": "installation", "rate": 9, "rate_period": "minute"}
LIMIT_FORM: Final = {
    "what": "everything",
    "budget_unit": "calls",
    "budget_period": "month",
    "mode": "enforce",
    "enabled": "on",
}
NEW_DOCUMENT = json.dumps({"openapi": "3.1.0", "paths": {"/first": {"get": {"summary": "First"}}}})


class Requests:
    """Maps ways to requests."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._given = {**self._of_forms(), **self._of_traffic(), **self._of_access(), **self._of_api()}

    def of(self, way: Way) -> Request:
        """Return the request of a way that Django serves."""
        address = self._address(way)
        given = self._given.get(str(way))
        if given is None:
            # A way denied to everyone gets a form that would be valid elsewhere.
            return Request(address, {"post": "yes", "_save": "1"} if way.method != "GET" else None)
        return replace(given, address=given.address or address)

    def _address(self, way: Way) -> str:
        rows, parts = self._rows, way.path.strip("/").split("/")
        model = parts[2] if len(parts) > 2 else ""
        numbers = {
            "deleted": lambda: rows.gone[model].pk,
            "roll-back": lambda: (rows.gone if way.variant == "deleted" else rows.change)[model].pk,
            "draft": lambda: rows.draft[way.variant or "tool"].pk,
        }
        if way.path == "/people/<id>/":
            return way.path.replace("<id>", str(rows.user.pk))
        if way.path.startswith("/find/documents/"):
            return way.path.replace("<id>/<id>", "deploy/<id>").replace("<id>", "index.md")
        if "/errors/<id>" in way.path:
            return way.path.replace("<id>", rows.error.pk)
        if "/incidents/<id>" in way.path:
            return way.path.replace("<id>", "1f2e3d4c")
        if "/searches/" in way.path:
            return way.path.replace("<id>", str(rows.search.pk))
        place = parts[-2] if parts[-2:-1] and parts[-1] == "<id>" else model
        find = numbers.get(place) or numbers.get(model) or (lambda: self._pk(parts))
        address = way.path.replace("<any>", "no-such-page").replace("r/<id>/<id>", "r/1/1")
        return (address.replace("<id>", str(find())) if "<id>" in address else address) + self._query(
            way.path, model
        )

    def _pk(self, parts: list[str]) -> Any:
        rows, seed = self._rows, self._rows.seed
        found = {model: rows.entry[model].pk for model in KINDS}
        found |= {PLURALS[model]: pk for model, pk in found.items()}
        found |= {"session": seed.session.pk, "message": seed.message.pk, "call": seed.call.pk}
        found |= {"sessions": seed.session.pk, "messages": seed.message.pk, "calls": seed.call.pk}
        found |= {
            "apikey": seed.key.pk,
            "keys": seed.key.pk,
            "auditevent": rows.event.pk,
            "credential": rows.credential.pk,
            "credentials": rows.credential.name,
            "apidocument": rows.document.pk,
            "upstream": rows.upstream.pk,
            "upstreams": rows.upstream.name,
            "toolset": rows.toolset.pk,
            "toolsets": rows.toolset.slug,
            "documents": rows.document.name,
            "limitrule": rows.limit.pk,
            "limits": rows.limit.name,
            "client": rows.client.pk,
            "connection": rows.connection.pk,
            "userconnection": rows.user_connection.pk,
            "connections": rows.upstream.name,
            "externalidentity": rows.identity.pk,
            "audit": rows.event.pk,
        }
        found |= {"approval": seed.undecided_call.pk, "user": rows.user.pk, "group": rows.group.pk}
        return next(found[part] for part in parts[1:] if part in found)

    def _query(self, path: str, model: str) -> str:
        if path.endswith("/try/run/"):
            return f"?message={self._rows.run[model].pk}"
        return {
            "/admin/search/": "?s=tool",
            "/console/messages/one.json": f"?key={self._rows.seed.message.pk}",
            "/console/messages/download/": "?form=jsonl",
        }.get(path, "")

    def _of_forms(self) -> dict[str, Request]:
        rows, found = self._rows, {}
        new = {
            "tool": COMMON
            | LIMITS
            | {"name": "own", "preset_of": rows.seed.echo.pk, "fixed_arguments": '{"text": "HI"}'},
            "prompt": COMMON | {"name": "own", "template": "Own", "arguments": "[]"},
            "resource": COMMON
            | {"uri": "notes://own", "name": "O", "mime_type": "", "text": "y", "annotations": "{}"},
            "resourcetemplate": COMMON,
        }
        for kind in KINDS:
            base, entry, off = f"POST /admin/mcp_app/{kind}/", rows.entry[kind].pk, rows.off[kind].pk
            told = new[kind] | {"title": "Edited"}
            found |= {
                f"{base}<id>/change/": _changing(told | {"_save": "1"}),
                f"{base}<id>/change/ _draft": _changing(told | {"_draft": "1"}),
                f"{base}<id>/accept/": _changing({}),
                f"{base}<id>/switch/": _changing({"mcp-enabled": "0"}),
                f"{base} action=enable_entries": _action("enable_entries", off),
                f"{base} action=disable_entries": _action("disable_entries", entry),
                f"{base} action=set_permission": _action(
                    "set_permission", entry, permission_chosen="1", permission="auth.view_group"
                ),
                f"{base}<id>/roll-back/": _changing({"why": "by mistake"}),
                f"{base}roll-back/<id>/": _changing({"why": "by mistake"}),
                f"{base}<id>/try/token/": Request("", {"user": ""}),
                f"{base}<id>/try/token/ user": _changing({"user": "somebody"}),
                f"{base}<id>/try/token/ superuser": _changing({"user": "another-root"}),
                f"{base}<id>/try/snippets/": Request(
                    "", json.dumps({"method": "tools/call", "params": {"name": "x"}})
                ),
                f"POST /admin/mcp_app/tool/import/ changes-{kind}": self._import(kind),
                f"POST /admin/mcp_app/draft/<id>/publish/ {kind}": _changing({}),
                f"POST /admin/mcp_app/draft/<id>/discard/ {kind}": _changing({}),
            }
        for kind in OWN:
            base, entry = f"POST /admin/mcp_app/{kind}/", rows.entry[kind].pk
            found |= {
                f"{base}add/": _changing(new[kind] | {"_save": "1"}),
                f"{base}add/ _draft": _changing(new[kind] | {"_draft": "1"}),
                f"{base}<id>/delete/": _changing({"post": "yes"}),
                f"{base} action=duplicate_entries": _action("duplicate_entries", entry),
                f"{base} action=delete_selected": _action("delete_selected", entry),
                f"{base}roll-back/<id>/ deleted": _changing({"why": "by mistake"}),
                f"POST /admin/mcp_app/draft/<id>/publish/ new-{kind}": _changing({}),
                f"POST /admin/mcp_app/draft/<id>/discard/ new-{kind}": _changing({}),
            }
        found |= self._of_http_tools()
        text = json.dumps(self._document("tool"))
        found["POST /admin/mcp_app/tool/import/"] = Request("", {"text": text})
        return found

    def _of_http_tools(self) -> dict[str, Request]:
        base, found = "/admin/mcp_app/tool/", {}
        given = {
            "method": "GET", "address": "http://127.0.0.1:1/a", "body_mode": "none", "mode": "auto",
            "timeout": "1", "retries": "0", "cache_seconds": "0", "name": "own", "arguments": "{}",
        }  # fmt: skip
        for path, address in (("http/", ""), ("<id>/http/", f"{base}{self._rows.http.pk}/http/")):
            found[f"GET {base}{path}"] = Request(address)
            found[f"POST {base}{path}"] = Request(address, {**given, "_live": "1"})
            for button in ("_draft", "_untried", "_try"):
                found[f"POST {base}{path} {button}"] = _changing({**given, button: "1"}, address=address)
        return found

    def _document(self, kind: str) -> dict[str, Any]:
        row = self._rows.entry[kind]
        key = {"resource": "uri", "resourcetemplate": "uri_template"}.get(kind, "name")
        entry = {key: getattr(row, key), "source": str(row.source), "title": "Imported"}
        if kind in OWN:
            made = {
                "tool": ("preset_of", "fixed_arguments"),
                "prompt": ("template",),
                "resource": ("name", "text"),
            }
            entry |= {name: getattr(row, name) for name in made[kind]}
            entry |= {"preset_of": "echo"} if kind == "tool" else {}
        return {"format": "django-mcp-catalogue", "version": 1, PLURALS[kind]: [entry]}

    def _import(self, kind: str) -> Request:
        carried = packed(json.dumps(self._document(kind)).encode())
        at = CatalogueRevision.objects.get(pk=1).number
        # A denied user sees the plan again, with the missing permission.
        return _changing({"packed": carried, "notation": "json", "at_revision": at}, is_form=True)

    def _of_traffic(self) -> dict[str, Request]:
        seed = self._rows.seed
        calls, approvals = "POST /admin/mcp_app/call/", "POST /admin/mcp_app/approval/"
        stop = f"/admin/mcp_app/call/{seed.running_call.pk}/stop/"
        decided = {"approve": {"decided": "approve"}, "refuse": {"decided": "refuse", "reason": "no"}}
        return {
            "POST /admin/mcp_app/session/<id>/end/": _changing({}),
            "POST /admin/mcp_app/session/ action=end_sessions": _action("end_sessions", seed.session.pk),
            f"{calls}<id>/stop/": _changing({}, address=stop),
            f"{calls}<id>/retry/": _changing({}),
            f"{calls} action=stop_calls": _action("stop_calls", seed.running_call.pk),
            f"{calls} action=retry_calls": _action("retry_calls", seed.call.pk),
            f"{approvals}<id>/approve/": _changing({"reason": "fine"}),
            f"{approvals}<id>/refuse/": _changing({"reason": "no"}),
            f"{approvals} action=approve_calls": _action(
                "approve_calls", seed.undecided_call.pk, **decided["approve"]
            ),
            f"{approvals} action=refuse_calls": _action(
                "refuse_calls", seed.undecided_call.pk, **decided["refuse"]
            ),
            "POST /zone/": _changing({"zone": "Europe/Berlin"}),
            "POST /admin/mcp_app/message/errors/<id>/triage/": _changing({"action": "resolve"}),
            "POST /admin/mcp_app/message/searches/": _changing({"name": "mine", "text": "tool:echo"}),
            "POST /admin/mcp_app/message/searches/<id>/share/": _changing({"shared": "0"}),
            "POST /console/sessions/<id>/cancel/": _changing({"request": "4"}),
            "POST /console/sessions/<id>/end/": _changing({}),
            # An examination takes seconds; a permitted user gets an error about the key.
            "POST /admin/mcp_app/doctor/": Request("", {"key": "not a key"}),
        }

    def _of_access(self) -> dict[str, Request]:
        rows = self._rows
        twice = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
        own = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
        joined = {"date_joined_0": "2026-11-20", "date_joined_1": "12:00:00"}
        other = {"user": rows.user.pk, "name": "theirs", "scopes": ["mcp"]}
        own_key = f"/admin/mcp_app/apikey/{OWN_API_KEY}/replace/"
        return {
            "POST /admin/login/": Request("", {"username": "root", "password": PASSWORD}),
            "POST /admin/logout/": Request("", {}),
            "POST /admin/password_change/": _changing(own),
            "POST /admin/mcp_app/apikey/add/": _changing(
                {"user": OWN_KEY, "name": "mine", "scopes": ["mcp"]}
            ),
            "POST /admin/mcp_app/apikey/add/ user": _changing(other, is_form=True),
            "GET /admin/mcp_app/apikey/<id>/replace/": Request(own_key),
            "GET /admin/mcp_app/apikey/<id>/replace/ user": Request(""),
            "POST /admin/mcp_app/apikey/<id>/replace/": _changing({"old_key_ends": "now"}, address=own_key),
            "POST /admin/mcp_app/apikey/<id>/replace/ user": _changing({"old_key_ends": "24h"}),
            "POST /admin/mcp_app/apikey/<id>/revoke/": _changing({}),
            "POST /admin/mcp_app/apikey/ action=revoke_keys": _action("revoke_keys", rows.seed.key.pk),
            "POST /admin/mcp_app/apidocument/import/": _changing({"text": NEW_DOCUMENT}),
            "POST /admin/mcp_app/apidocument/<id>/select/": _changing(
                {"selection": '{"GET /first": ""}', "server": "https://api.example"}
            ),
            "POST /admin/mcp_app/apidocument/<id>/publish/": _changing({}),
            "POST /admin/mcp_app/apidocument/<id>/fetch/": _changing({"text": NEW_DOCUMENT}),
            "POST /admin/mcp_app/apidocument/<id>/update/": Request("", {"accepted": "none"}),
            "POST /admin/mcp_app/apidocument/<id>/remove/": _changing({}),
            "POST /admin/mcp_app/limitrule/add/": _changing({**LIMIT, **LIMIT_FORM, "name": "new"}),
            "POST /admin/mcp_app/limitrule/<id>/settings/": _changing({**LIMIT, **LIMIT_FORM, "rate": 8}),
            "POST /admin/mcp_app/limitrule/<id>/reset/": _changing({}),
            "POST /admin/mcp_app/limitrule/<id>/remove/": _changing({}),
            "POST /admin/mcp_app/toolset/add/": _changing({"slug": "new", "audience": "everyone"}),
            "POST /admin/mcp_app/toolset/add/ _draft": _changing(
                {"slug": "new", "audience": "everyone", "_draft": "1"}
            ),
            "POST /admin/mcp_app/toolset/<id>/edit/": _changing({"audience": "logged_in"}),
            "POST /admin/mcp_app/toolset/<id>/edit/ _draft": _changing(
                {"audience": "logged_in", "_draft": "1"}
            ),
            "POST /admin/mcp_app/draft/<id>/publish/ toolset": _changing({}),
            "POST /admin/mcp_app/draft/<id>/discard/ toolset": _changing({}),
            "POST /admin/mcp_app/draft/<id>/publish/ new-toolset": _changing({}),
            "POST /admin/mcp_app/draft/<id>/discard/ new-toolset": _changing({}),
            "POST /admin/mcp_app/toolset/<id>/remove/": _changing({}),
            "POST /admin/mcp_app/toolset/roll-back/<id>/": _changing({"why": "by mistake"}),
            "POST /admin/mcp_app/upstream/add/": _changing(
                {**SERVER, "name": "new", "era": "auto", "isolation": "session"}
            ),
            "POST /admin/mcp_app/upstream/configuration/": _changing(
                {"configuration": '{"servers": {"new": {"url": "https://new.example/mcp"}}}'}
            ),
            "POST /admin/mcp_app/upstream/<id>/settings/": _changing(
                {**SERVER, "era": "auto", "isolation": "shared"}
            ),
            "POST /admin/mcp_app/upstream/<id>/refresh/": Request("", {}),
            "POST /admin/mcp_app/upstream/<id>/select/": _changing({"tools": ["first"]}),
            "POST /admin/mcp_app/upstream/<id>/publish/": _changing({}),
            "POST /admin/mcp_app/upstream/<id>/remove/": _changing({}),
            "POST /admin/mcp_app/credential/add/": _changing(
                {"name": "new", "origins": "https://b.example", "token": "t"}
            ),
            "POST /admin/mcp_app/credential/<id>/change/": _changing(
                {"origins": "https://c.example", "token": "t"}
            ),
            "POST /admin/mcp_app/credential/<id>/delete/": _changing({"post": "yes"}),
            "POST /admin/mcp_oauth/client/add/": _changing(
                {"name": "new", "redirect_uris": "https://b.example/", "token_auth_method": "none"}
            ),
            "POST /admin/mcp_oauth/client/add/ machine": _changing(
                {
                    "name": "robot",
                    "who": "machine",
                    "token_auth_method": "client_secret_basic",
                    "scopes": ["mcp"],
                },
                is_form=True,
            ),
            "POST /admin/mcp_oauth/client/<id>/disable/": _changing({}),
            "POST /admin/mcp_oauth/client/<id>/enable/": _changing({}),
            "POST /admin/mcp_oauth/connection/<id>/end/": _changing({}),
            "POST /admin/mcp_app/userconnection/<id>/end/": _changing({}),
            "POST /admin/mcp_app/userconnection/ action=end_connections": _action(
                "end_connections", rows.user_connection.pk
            ),
            "POST /admin/mcp_oauth/connection/ action=end_connections": _action(
                "end_connections", rows.connection.pk
            ),
            "GET /admin/autocomplete/": Request(
                "", {"app_label": "auth", "model_name": "user_groups", "field_name": "user", "term": "a"}
            ),
            "POST /admin/auth/user/add/": _changing({"username": "new", **twice}),
            "POST /admin/auth/user/<id>/change/": _changing(
                {"username": "renamed", "is_active": "on", **joined}
            ),
            "POST /admin/auth/user/<id>/password/": _changing(twice),
            "POST /admin/auth/user/<id>/second-factor/": _changing({}),
            "POST /admin/auth/user/<id>/delete/": _changing({"post": "yes"}),
            "POST /admin/auth/user/ action=delete_selected": _action("delete_selected", rows.user.pk),
            "POST /admin/auth/group/add/": _changing({"name": "new"}),
            "POST /admin/auth/group/<id>/change/": _changing({"name": "renamed"}),
            "POST /admin/auth/group/<id>/delete/": _changing({"post": "yes"}),
            "POST /admin/auth/group/ action=delete_selected": _action("delete_selected", rows.group.pk),
        }

    def _of_api(self) -> dict[str, Request]:
        rows, found = self._rows, {}
        made = {
            "tool": {"name": "own", "preset_of": "echo", "fixed_arguments": {"text": "hi"}},
            "prompt": {"name": "own", "template": "Own"},
            "resource": {"uri": "notes://own", "name": "Own", "text": "Own"},
        }
        for kind in KINDS:
            kinds = f"/api/{PLURALS[kind]}/"
            found |= {
                f"PATCH {kinds}<id>/": _changing({"title": "Edited"}),
                f"POST {kinds}<id>/enable/": _changing({}, address=f"{kinds}{rows.off[kind].pk}/enable/"),
                f"POST {kinds}<id>/disable/": _changing({}),
                f"POST {kinds}<id>/accept/": _changing({}),
                f"POST /api/catalogue/import/ changes-{kind}": _changing(json.dumps(self._document(kind))),
            }
        for kind in OWN:
            found[f"POST /api/{PLURALS[kind]}/"] = _changing(made[kind])
            found[f"DELETE /api/{PLURALS[kind]}/<id>/"] = _changing({})
        dry = "/api/catalogue/import/?dry_run=true"
        return found | {
            "POST /api/catalogue/import/ dry_run": Request(dry, json.dumps(self._document("tool"))),
            "POST /api/sessions/<id>/end/": _changing({}),
            "POST /api/errors/<id>/mute/": _changing({"times": 10}),
            "POST /api/errors/<id>/resolve/": _changing({}),
            "POST /api/errors/<id>/reopen/": _changing({}),
            "POST /api/errors/<id>/assign/": _changing({"user": None}),
            "POST /api/calls/": _changing({"tool": "echo", "arguments": {"text": "hi"}}),
            "POST /api/calls/<id>/cancel/": _changing(
                {}, address=f"/api/calls/{rows.seed.running_call.pk}/cancel/"
            ),
            "POST /api/calls/<id>/retry/": _changing({}),
            "POST /api/keys/": _changing({"name": "mine"}),
            "POST /api/keys/ user": _changing({"name": "theirs", "user": "somebody"}),
            "POST /api/keys/<id>/replace/": _changing(
                {"old_key_ends": "now"}, address=f"/api/keys/{OWN_API_KEY}/replace/"
            ),
            "POST /api/keys/<id>/replace/ user": _changing({"old_key_ends": "1h"}),
            "POST /api/keys/<id>/revoke/": _changing({}),
            "POST /api/credentials/": _changing(
                {
                    "name": "new",
                    "kind": "bearer",
                    "origins": ["https://b.example"],
                    "secret": {"token": "t"},
                }
            ),
            "POST /api/limits/": _changing({**LIMIT, "name": "new"}),
            "PATCH /api/limits/<id>/": _changing({"rate": 8}),
            "DELETE /api/limits/<id>/": _changing({}),
            "POST /api/limits/<id>/reset/": _changing({"subject": "all"}),
            "POST /api/toolsets/": _changing({"slug": "new", "audience": "everyone"}),
            "PATCH /api/toolsets/<id>/": _changing({"title": "changed"}),
            "DELETE /api/toolsets/<id>/": _changing({}),
            "POST /api/upstreams/": _changing({"name": "new", "url": SERVER["url"]}),
            "PATCH /api/upstreams/<id>/": _changing({"enabled": False}),
            "DELETE /api/upstreams/<id>/": _changing({}),
            "DELETE /api/connections/<id>/": Request("", {}),
            "POST /api/upstreams/<id>/refresh/": Request("", {"x": 1}),
            "POST /api/upstreams/<id>/tools/": _changing({"tools": ["first"]}),
            "PATCH /api/credentials/<id>/": _changing({"expires_at": "2099-01-01T00:00:00Z"}),
            "DELETE /api/credentials/<id>/": _changing({}),
            "POST /api/documents/": _changing({"text": NEW_DOCUMENT, "name": "new"}),
            "POST /api/documents/<id>/import/": _changing({"operations": ["GET /first"]}),
            "POST /api/documents/<id>/publish/": _changing({}),
            "POST /api/documents/<id>/fetch/": _changing({"text": NEW_DOCUMENT}),
            "POST /api/documents/<id>/update/": Request("", {"accepted": ["none"]}),
            "DELETE /api/documents/<id>/": _changing({}),
        }


def _changing(data: Any, *, address: str = "", is_form: bool = False) -> Request:
    return Request(address, data, changes=True, is_form=is_form)


def _action(name: str, pk: Any, **more: str) -> Request:
    chosen = {"action": name, "_selected_action": [pk], "post": "yes", **more}
    return Request("", chosen, changes=True, is_form=True)


assert set(MODELS.values()) == set(ENTRY_KINDS)
