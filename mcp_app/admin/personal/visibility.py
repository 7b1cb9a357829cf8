"""The page that lists the entries that a user or an API key can use.

It also explains why the other entries cannot be used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Case, Q, When
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from mcp_app.auth.api_keys import KEY_ENDS_WITHIN, key_states
from mcp_app.auth.permissions import PermissionMissing, may_view_people, people_permission
from mcp_app.auth.principal_names import name_of
from mcp_app.catalogue.access import (
    NOT_PUBLISHED,
    Holder,
    decisions,
    holder_of,
    holder_of_key,
)
from mcp_app.database import clock
from mcp_app.interface.text import marked
from mcp_app.models import ApiKey, Draft, Prompt, Resource, ResourceTemplate, Tool

PER_PAGE: Final = 100
# Maximum number of entries read. Others can be found with the search.
MOST_READ: Final = 5_000
# For each kind, its label, its model, and the name of the field that identifies an entry.
KINDS: Final[dict[str, tuple[str, Any, str]]] = {
    "tool": ("Tools", Tool, "name"),
    "prompt": ("Prompts", Prompt, "name"),
    "resource": ("Resources", Resource, "uri"),
    "template": ("Resource templates", ResourceTemplate, "uri_template"),
}
SHOWN: Final = {"": "All", "no": "Cannot use", "yes": "Can use"}


class EntryVisibility(NamedTuple):
    """An entry on the page. ``can`` is True if it can be used, and ``why`` is the reason."""

    name: str
    url: str
    can: bool
    why: str


class SectionChoice(NamedTuple):
    """A link to a section of the page."""

    title: str
    url: str
    chosen: bool


@require_safe
def person(request: HttpRequest, pk: str) -> HttpResponse:
    """List the entries that the user with the primary key ``pk`` can use.

    ``?key=`` selects an API key of that user. ``?kind=``, ``?show=`` and ``?q=`` filter the list.
    """
    kinds = [kind for kind, (_, model, _) in KINDS.items() if _may_view(request, model)]
    if not (may_view_people(request.user) and kinds):
        raise PermissionMissing(people_permission())
    user, key = _user(pk), _key(request, pk)
    kind = request.GET.get("kind", "")
    kind = kind if kind in kinds else kinds[0]
    show = request.GET.get("show", "")
    show = show if show in SHOWN else ""
    asked = request.GET.get("q", "").replace("\x00", "").strip()[:150]
    rows = list(_seen(kind, asked, holder_of_key(key) if key else holder_of(user)))
    found = [row for row in rows if not show or row.can is (show == "yes")]
    name = marked(name_of(user))
    kept = {"key": str(key.pk) if key else "", "kind": kind, "show": show, "q": asked}
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": f"What {name} can use" + (f" with the key {marked(key.name)}" if key else ""),
        "seen": sum(row.can for row in rows),
        "of": len(rows),
        "what": KINDS[kind][0].lower(),
        "kinds": [_choice(KINDS[each][0], kept, each == kind, kind=each) for each in kinds],
        "shows": [_choice(title, kept, each == show, show=each) for each, title in SHOWN.items()],
        "page": Paginator(found, PER_PAGE).get_page(request.GET.get("p")),
        "kept": {word: value for word, value in kept.items() if value},
        "asked": asked,
        "more": urlencode({word: value for word, value in kept.items() if value}),
        "most": MOST_READ if len(rows) >= MOST_READ else 0,
        "keys": _keys(request, pk, kept),
    }
    return TemplateResponse(request, "mcp_admin/visibility.html", context)


def _seen(kind: str, asked: str, holder: Holder) -> Iterator[EntryVisibility]:
    """Yield each entry and each draft of a new entry.

    The number of queries does not depend on their number.
    """
    _, model, key = KINDS[kind]
    named = Q(**{f"{key}__icontains": asked}) | Q(title__icontains=asked) if asked else Q()
    for entry, decision in decisions(model, holder, named=named, most=MOST_READ):
        url = reverse(f"admin:mcp_app_{model._meta.model_name}_change", args=[entry.pk])
        yield EntryVisibility(marked(getattr(entry, key)), url, *decision)
    drafts = Draft.objects.filter(kind=kind, entry_id=None, key__icontains=asked).order_by("key")
    for pk, name in drafts.values_list("pk", "key")[:PER_PAGE]:
        yield EntryVisibility(
            marked(name), reverse("admin:mcp_app_draft_change", args=[pk]), False, NOT_PUBLISHED
        )


def _may_view(request: HttpRequest, model: Any) -> bool:
    return bool(admin.site.get_model_admin(model).has_view_permission(request))


def _user(pk: str) -> Any:
    model: Any = get_user_model()
    try:
        return model._default_manager.get(pk=pk)
    except (model.DoesNotExist, ValidationError, ValueError, OverflowError):
        raise Http404 from None


def _key(request: HttpRequest, pk: str) -> ApiKey | None:
    """Return the API key in the query string, or None if there is none.

    Raises Http404 if the key does not belong to the user.
    """
    asked = request.GET.get("key", "")
    if not asked:
        return None
    if not request.user.has_perm("mcp_app.view_apikey"):
        raise PermissionMissing("mcp_app.view_apikey")
    if not (asked.isascii() and asked.isdigit() and len(asked) < 19):
        raise Http404
    found = ApiKey.objects.select_related("user").filter(pk=int(asked), user_id=pk).first()
    if found is None:
        raise Http404
    return found


def _keys(request: HttpRequest, pk: str, kept: dict[str, str]) -> list[SectionChoice]:
    """Return links for the user and the user's newest API keys, the active ones first.

    The list is empty if the viewer may not view API keys.
    """
    if not request.user.has_perm("mcp_app.view_apikey"):
        return []
    ended_last = Case(When(key_states()["active"], then=0), default=1)
    rows = ApiKey.objects.filter(user_id=pk).order_by(ended_last, "-pk")[:12]
    keys = [_choice(_titled(key), kept, kept["key"] == str(key.pk), key=str(key.pk)) for key in rows]
    return [_choice("The user", kept, not kept["key"], key=""), *keys] if keys else []


def _titled(key: ApiKey) -> str:
    """Return the name of a key. Keys with one name differ in the state: revoked, expired or ending soon."""
    title, ends = f"Key {marked(key.name)}", key.expires_at
    if key.revoked_at is not None:
        return f"{title} (revoked)"
    if not key.usable:
        return f"{title} (expired)"
    if ends is not None and ends <= clock.utcnow() + KEY_ENDS_WITHIN:
        return f"{title} (expires {timezone.localtime(ends):%Y-%m-%d %H:%M})"
    return title


def _choice(title: str, kept: dict[str, str], chosen: bool, **changed: str) -> SectionChoice:
    asked = {word: value for word, value in {**kept, **changed}.items() if value}
    return SectionChoice(title, "?" + urlencode(asked), chosen)
