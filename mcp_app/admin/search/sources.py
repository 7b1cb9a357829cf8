"""The sources of the global search.

Each runs a limited query and yields only results that the user may view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from heapq import nsmallest
from typing import Any, Final

from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet, Value
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse, reverse_lazy
from django.utils.text import format_lazy

from mcp_app import conf
from mcp_app.admin.search import documents, traffic
from mcp_app.admin.search.found import MENTIONS, MOST_OF_KIND, SearchResult, page_of, place, rank_of
from mcp_app.auth.api_keys import login_name
from mcp_app.auth.permissions import may_view_people
from mcp_app.interface.text import marked
from mcp_app.message_log.search.language import LONGEST
from mcp_app.message_log.search.saved import READS, searches_of
from mcp_app.models import ApiKey, Prompt, Resource, ResourceTemplate, Tool, Upstream
from mcp_app.observability.redaction import without_query_values

# Maximum number of rows read per kind.
MOST_READ: Final = 500
# Maximum number of characters shown of a saved search's text.
SAID: Final = 80
# Shorter queries would occur in every document.
LEAST_MENTIONED: Final = 3
PAGES: Final = (
    ("Figures", "admin:mcp_app_message_figures", "mcp_app.view_message"),
    ("Errors", "admin:mcp_app_message_errors", "mcp_app.view_message"),
    ("Log", "admin:mcp_app_message_changelist", "mcp_app.view_message"),
    ("Sessions", "admin:mcp_app_session_changelist", "mcp_app.view_session"),
    ("Connect a client", "mcp_connect", ""),
)


Source = Callable[[HttpRequest, str], Iterator[SearchResult]]


def find(request: HttpRequest, text: str) -> list[SearchResult]:
    """Return the results for ``text`` that the user may view, the best first."""
    text = text.replace("\x00", "").strip()[: LONGEST // 2]
    if not text:
        return []
    found: list[SearchResult] = []
    for source in SOURCES:
        found += nsmallest(MOST_OF_KIND, source(request, text), key=lambda each: place(each.rank, each.title))
    return sorted(found, key=lambda each: each.rank)


def _entries(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    kinds: tuple[tuple[type[Any], str], ...] = (
        (Tool, "name"), (Prompt, "name"), (Resource, "uri"), (ResourceTemplate, "uri_template"),
    )  # fmt: skip
    asked: list[QuerySet[Any, Any]] = []
    for kind, (model, key) in enumerate(kinds):
        if request.user.has_perm(f"mcp_app.view_{model._meta.model_name}"):
            says = Q(name__icontains=text) | Q(title__icontains=text) | Q(**{f"{key}__icontains": text})
            rows = model.objects.filter(says).order_by()
            asked.append(rows.values_list(Value(kind), "pk", "name", "title", key))
    if not asked:
        return
    # One query for all kinds, because the search runs at every keystroke.
    found = asked[0].union(*asked[1:], all=True).order_by("name")
    for kind, pk, name, title, address in found[: MOST_READ * len(asked)]:
        if (rank := rank_of(text, name, address, title)) is not None:
            about = kinds[kind][0]._meta
            page = page_of(str(about.model_name), pk)
            yield SearchResult(rank, str(about.verbose_name), name, title or address, page)


def _searches(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    """Yield saved searches of the user and shared searches."""
    if not request.user.has_perm(READS):
        return
    rows = searches_of(request.user).filter(name__icontains=text).order_by("name")
    for pk, name, search in rows.values_list("pk", "name", "text")[:MOST_READ]:
        if (rank := rank_of(text, name)) is not None:
            url = reverse_lazy("admin:mcp_app_message_search", args=[pk])
            yield SearchResult(rank, "saved search", name, search[:SAID], url)


def finds_people(request: HttpRequest) -> bool:
    """Return True if the user may view users and the admin has pages of users."""
    return may_view_people(request.user) and admin.site.is_registered(get_user_model())


def _people(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    model = get_user_model()
    app, named = model._meta.app_label, model._meta.model_name
    if not finds_people(request):
        return
    name = model.USERNAME_FIELD
    rows = model._default_manager.filter(**{f"{name}__icontains": text}).order_by(name)
    for pk, username in rows.values_list("pk", name)[:MOST_READ]:
        if (rank := rank_of(text, username)) is not None:
            yield SearchResult(
                rank, "user", username, "", reverse_lazy(f"admin:{app}_{named}_change", args=[pk])
            )


def _keys(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    if not request.user.has_perm("mcp_app.view_apikey"):
        return
    owner = login_name("user")
    named = Q(name__icontains=text) | Q(prefix=text) | Q(**{f"{owner}__icontains": text})
    rows = ApiKey.objects.filter(named).order_by("-pk")
    for pk, name, prefix, user in rows.values_list("pk", "name", "prefix", owner)[:MOST_READ]:
        if (rank := rank_of(text, name, prefix, user)) is not None:
            yield SearchResult(rank, "API key", name, f"{prefix}, of {user}", page_of("apikey", pk))


def _settings(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    """Yield settings that match by name.

    Values are shown only for numbers and switches, which are never secret.
    """
    if not request.user.has_perm("mcp_app.run_doctor"):
        return
    doctor, now = reverse("admin:mcp_app_doctor_changelist"), conf.get()
    for field in fields(now):
        name, value = field.name.upper(), getattr(now, field.name)
        rank = rank_of(text, name, name.replace("_", " "))
        if rank is not None:
            note = f"is {value}" if isinstance(value, int | float) else ""
            yield SearchResult(rank, "setting", f'MCP["{name}"]', note, doctor)


def _pages(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    """Yield pages that match by title, each once."""
    seen = set[str]()
    for app in vars(request).get("app_list") or admin.site.get_app_list(request):
        for model in app["models"]:
            rank = rank_of(text, str(model["name"]))
            if rank is not None and model.get("admin_url"):
                seen.add(str(model["admin_url"]))
                yield SearchResult(rank, "page", str(model["name"]), str(app["name"]), model["admin_url"])
    for title, view, permission in PAGES:
        rank = rank_of(text, title)
        if rank is not None and (not permission or request.user.has_perm(permission)):
            try:
                url = reverse(view)
            except NoReverseMatch:
                continue  # The project has no URL for this page.
            if url not in seen:
                yield SearchResult(rank, "page", title, "", url)


def _clients(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    """Yield OAuth clients by name or client id. A client id may be the address of a metadata document."""
    if not apps.is_installed("mcp_app.oauth") or not request.user.has_perm("mcp_oauth.view_client"):
        return
    rows = apps.get_model("mcp_oauth", "Client")._default_manager
    rows = rows.filter(Q(name__icontains=text) | Q(client_id__icontains=text)).order_by("-pk")
    for pk, name, client_id in rows.values_list("pk", "name", "client_id")[:MOST_READ]:
        if (rank := rank_of(text, name, client_id)) is not None:
            url = reverse_lazy("admin:mcp_oauth_client_change", args=[pk])
            yield SearchResult(rank, "OAuth client", name or client_id, client_id, url)


def _upstreams(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    if not request.user.has_perm("mcp_app.view_upstream"):
        return
    says = Q(name__icontains=text) | Q(title__icontains=text) | Q(url__icontains=text)
    for pk, name, title, stored in Upstream.objects.filter(says).values_list("pk", "name", "title", "url")[
        :MOST_READ
    ]:
        url = without_query_values(stored)
        if (rank := rank_of(text, name, title, url)) is not None:
            yield SearchResult(rank, "upstream server", name, title or url, page_of("upstream", pk))


def _documents(request: HttpRequest, text: str) -> Iterator[SearchResult]:
    """Yield sections whose heading matches, followed by sections that contain the text.

    All staff users may read the documents.
    """
    named = {each: rank for each in documents.headings() if (rank := rank_of(text, each.heading)) is not None}
    for section, rank in named.items():
        yield _section(rank, section)
    if len(text) >= LEAST_MENTIONED:
        for section in documents.mentioning(text, MOST_OF_KIND + len(named)):
            if section not in named:
                yield _section(MENTIONS, section)


def _section(rank: int, section: documents.Section) -> SearchResult:
    url = format_lazy("{}#{}", reverse_lazy("mcp_document", args=section.page.split("/")), section.anchor)
    note = section.title if section.title != section.heading else ""
    return SearchResult(rank, "document", section.heading, note, url)


SOURCES: Final[tuple[Source, ...]] = (
    _entries, _pages, _searches, _people, _keys, traffic.sessions, traffic.calls, _clients, _upstreams,
    _settings, _documents, traffic.messages,
)  # fmt: skip


def shown(found: SearchResult) -> dict[str, str]:
    """Return a result as JSON data for the search box. Hidden characters are marked (S11)."""
    return {
        "kind": found.kind,
        "title": marked(found.title),
        "note": marked(found.note),
        "url": str(found.url),
    }
