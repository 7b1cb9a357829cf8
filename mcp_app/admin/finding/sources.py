"""Owns what the box looks through: of each kind a bounded number of rows, for those who may view them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Q
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from mcp_app import conf
from mcp_app.admin.calls.call_page import state_of
from mcp_app.admin.finding import documents
from mcp_app.admin.markup import written
from mcp_app.auth.permissions import may_view_people
from mcp_app.auth.principal_names import principal_names
from mcp_app.models import ApiKey, Call, Message, Prompt, Resource, ResourceTemplate, Session, Tool
from mcp_app.sessions.searching.language import LONGEST
from mcp_app.sessions.searching.saved import READS, searches_of
from mcp_app.text import marked

# Rows that are looked at of a kind, and how many of them are shown.
MOST_READ: Final = 500
MOST_OF_KIND: Final = 6
NEWEST_SESSIONS: Final = 1_000
# Of the text of a saved search.
SAID: Final = 80
LARGEST_ID: Final = 2**63 - 1
# Fewer letters are in every document.
LEAST_MENTIONED: Final = 3
# After all that is named so: sections of documents that mention it, then the messages that say it.
MENTIONS, SAYS = 3, 4
PAGES: Final = (
    ("Figures", "admin:mcp_app_message_figures", "mcp_app.view_message"),
    ("Errors", "admin:mcp_app_message_errors", "mcp_app.view_message"),
    ("Live messages", "mcp_console:messages", "mcp_app.view_message"),
    ("Live sessions", "mcp_console:sessions", "mcp_app.view_session"),
    ("Connect a client", "mcp_connect", ""),
)


class Found(NamedTuple):
    """One thing with its page; ``rank`` 0 is named exactly so, 1 begins so, 2 has it somewhere, 3 says it."""

    rank: int
    kind: str
    title: str
    note: str
    url: str


Source = Callable[[HttpRequest, str], Iterator[Found]]


def find(request: HttpRequest, text: str) -> list[Found]:
    """What a text names, for this visitor, the best first."""
    text = text.replace("\x00", "").strip()[: LONGEST // 2]
    if not text:
        return []
    found: list[Found] = []
    for source in SOURCES:
        of_kind = sorted(source(request, text), key=_place)
        found += of_kind[:MOST_OF_KIND]
    return sorted(found, key=lambda each: each.rank)


def _place(found: Found) -> tuple[int, int]:
    """The shortest name has least beside what was asked for; what only mentions it stays in its order."""
    return found.rank, len(found.title) if found.rank < MENTIONS else 0


def _rank(text: str, *names: str) -> int | None:
    """How well the best of the names fits; None where none does."""
    wanted, lower = text.lower(), [name.lower() for name in names]
    if wanted in lower:
        return 0
    if any(name.startswith(wanted) for name in lower):
        return 1
    return 2 if any(wanted in name for name in lower) else None


def _entries(request: HttpRequest, text: str) -> Iterator[Found]:
    kinds: tuple[tuple[type[Any], str], ...] = (
        (Tool, "name"), (Prompt, "name"), (Resource, "uri"), (ResourceTemplate, "uri_template"),
    )  # fmt: skip
    for model, key in kinds:
        named = model._meta.model_name
        if not request.user.has_perm(f"mcp_app.view_{named}"):
            continue
        says = Q(name__icontains=text) | Q(title__icontains=text) | Q(**{f"{key}__icontains": text})
        rows = model.objects.filter(says).order_by("name").values_list("pk", "name", "title", key)
        for pk, name, title, address in rows[:MOST_READ]:
            rank = _rank(text, name, address, title)
            if rank is not None:
                yield Found(rank, str(model._meta.verbose_name), name, title or address, _row(named, pk))


def _sessions(request: HttpRequest, text: str) -> Iterator[Found]:
    if not request.user.has_perm("mcp_app.view_session"):
        return
    columns = ("pk", "client_name", "client_version", "principal", "created_at")
    rows = [*Session.objects.filter(pk=text[:64]).values_list(*columns)]
    rows += Session.objects.order_by("-created_at").values_list(*columns)[:NEWEST_SESSIONS]
    fit = [(rank, row) for row in dict.fromkeys(rows) if (rank := _rank(text, row[0], row[1])) is not None]
    best = sorted(fit, key=lambda each: (each[0], len(each[1][1] or each[1][0])))[:MOST_OF_KIND]
    names = principal_names([row[3] for _, row in best])
    for rank, (pk, client, version, principal, created) in best:
        note = f"{version} {names[principal]}, opened {written(created)}".strip()
        yield Found(rank, "session", client or pk, note, _row("session", pk))


def _calls(request: HttpRequest, text: str) -> Iterator[Found]:
    if not request.user.has_perm("mcp_app.view_call"):
        return
    try:
        call = Call.objects.filter(pk=UUID(text)).first()
    except ValueError:
        return
    if call is not None:
        about = f"{state_of(call)[0]}, {call.pk.hex}"
        yield Found(0, "background call", call.tool, about, _row("call", call.pk.hex))


def _messages(request: HttpRequest, text: str) -> Iterator[Found]:
    """A message by its number or its request's id; words are left to the page that looks for them."""
    if not request.user.has_perm("mcp_app.view_message"):
        return
    named = Message.objects.filter(request_id=text[:120]).order_by("-pk")[:3]
    rows = [*named]
    if text.isascii() and text.isdigit() and int(text) <= LARGEST_ID:
        rows += Message.objects.filter(pk=int(text))
    for message in dict.fromkeys(rows):
        title = f"{message.method or message.kind} {message.target}".strip()
        note = f"id {message.request_id}, {written(message.at)}"
        yield Found(0, "message", title, note, _row("message", message.pk))
    if '"' not in text:
        log = reverse("admin:mcp_app_message_changelist")
        words = f"{log}?{urlencode({'q': _words(text)})}"
        yield Found(SAYS, "messages", f"Messages with “{text}”", "", words)


def _words(text: str) -> str:
    return f'"{text}"'


def _searches(request: HttpRequest, text: str) -> Iterator[Found]:
    """One's own saved searches and those that are shared."""
    if not request.user.has_perm(READS):
        return
    rows = searches_of(request.user).filter(name__icontains=text).order_by("name")
    for pk, name, search in rows.values_list("pk", "name", "text")[:MOST_READ]:
        if (rank := _rank(text, name)) is not None:
            url = reverse("admin:mcp_app_message_search", args=[pk])
            yield Found(rank, "saved search", name, search[:SAID], url)


def _people(request: HttpRequest, text: str) -> Iterator[Found]:
    model = get_user_model()
    app, named = model._meta.app_label, model._meta.model_name
    if not may_view_people(request.user) or not admin.site.is_registered(model):
        return
    name = model.USERNAME_FIELD
    rows = model._default_manager.filter(**{f"{name}__icontains": text}).order_by(name)
    for pk, username in rows.values_list("pk", name)[:MOST_READ]:
        if (rank := _rank(text, username)) is not None:
            yield Found(rank, "person", username, "", reverse(f"admin:{app}_{named}_change", args=[pk]))


def _keys(request: HttpRequest, text: str) -> Iterator[Found]:
    if not request.user.has_perm("mcp_app.view_apikey"):
        return
    rows = ApiKey.objects.filter(Q(name__icontains=text) | Q(prefix=text)).order_by("-pk")
    for pk, name, prefix in rows.values_list("pk", "name", "prefix")[:MOST_READ]:
        if (rank := _rank(text, name, prefix)) is not None:
            yield Found(rank, "API key", name, prefix, _row("apikey", pk))


def _settings(request: HttpRequest, text: str) -> Iterator[Found]:
    """Settings by name; only numbers and switches are shown, which are no secrets."""
    if not request.user.has_perm("mcp_app.run_doctor"):
        return
    doctor, now = reverse("admin:mcp_app_doctor_changelist"), conf.get()
    for field in fields(now):
        name, value = field.name.upper(), getattr(now, field.name)
        rank = _rank(text, name, name.replace("_", " "))
        if rank is not None:
            note = f"is {value}" if isinstance(value, int | float) else ""
            yield Found(rank, "setting", f'MCP["{name}"]', note, doctor)


def _pages(request: HttpRequest, text: str) -> Iterator[Found]:
    for app in admin.site.get_app_list(request):
        for model in app["models"]:
            rank = _rank(text, str(model["name"]))
            if rank is not None and model.get("admin_url"):
                yield Found(rank, "page", str(model["name"]), str(app["name"]), model["admin_url"])
    for title, view, permission in PAGES:
        rank = _rank(text, title)
        if rank is not None and (not permission or request.user.has_perm(permission)):
            try:
                yield Found(rank, "page", title, "", reverse(view))
            except NoReverseMatch:
                continue  # This project does not serve it.


def _clients(request: HttpRequest, text: str) -> Iterator[Found]:
    """OAuth clients, also by the address of the document that one published, which is its id."""
    if not apps.is_installed("mcp_app.oauth") or not request.user.has_perm("mcp_oauth.view_client"):
        return
    rows = apps.get_model("mcp_oauth", "Client")._default_manager
    rows = rows.filter(Q(name__icontains=text) | Q(client_id__icontains=text)).order_by("-pk")
    for pk, name, client_id in rows.values_list("pk", "name", "client_id")[:MOST_READ]:
        if (rank := _rank(text, name, client_id)) is not None:
            url = reverse("admin:mcp_oauth_client_change", args=[pk])
            yield Found(rank, "OAuth client", name or client_id, client_id, url)


def _documents(request: HttpRequest, text: str) -> Iterator[Found]:
    """Sections of the documents by their headings, then those that mention it; they are for all staff."""
    named = {each: rank for each in documents.headings() if (rank := _rank(text, each.heading)) is not None}
    for section, rank in named.items():
        yield _section(rank, section)
    if len(text) >= LEAST_MENTIONED:
        for section in documents.mentioning(text, MOST_OF_KIND + len(named)):
            if section not in named:
                yield _section(MENTIONS, section)


def _section(rank: int, section: documents.Section) -> Found:
    url = f"{reverse('mcp_document', args=section.page.split('/'))}#{section.anchor}"
    note = section.title if section.title != section.heading else ""
    return Found(rank, "document", section.heading, note, url)


def _row(model: str, pk: object) -> str:
    return reverse(f"admin:mcp_app_{model}_change", args=[pk])


SOURCES: Final[tuple[Source, ...]] = (
    _entries, _pages, _searches, _sessions, _calls, _people, _keys, _clients, _settings,
    _documents, _messages,
)  # fmt: skip


def shown(found: Found) -> dict[str, str]:
    """As the box takes it; every text has its hidden characters marked (S11)."""
    return {"kind": found.kind, "title": marked(found.title), "note": marked(found.note), "url": found.url}
