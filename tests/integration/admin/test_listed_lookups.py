"""Admin lists accept only the lookups they offer; hidden fields cannot be guessed."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import Permission
from django.core.exceptions import SuspiciousOperation
from django.db import models
from django.test import Client, RequestFactory
from django.urls import reverse

from mcp_app.admin.list_filters import ListedLookups
from mcp_app.models import ApiKey, Call, Tool
from tests.integration.admin.conftest import ClientOf
from tests.samples.admin_seed import Seed, background_call, undecided_call

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

# The lookups of each list by model: lookups of its filters, and of links on other pages.
OFFERED: dict[str, set[str]] = {
    "auth.group": set(),
    "auth.user": {
        *("is_active__exact", "is_active__isnull", "is_staff__exact", "is_staff__isnull"),
        *("is_superuser__exact", "is_superuser__isnull", "groups__id__exact", "groups__isnull"),
    },
    "mcp_app.apikey": {"created_at__gte", "created_at__lt"},
    "mcp_app.approval": {"accepted_at__gte", "accepted_at__lt", "decision"},
    "mcp_app.auditevent": {
        *("at__gte", "at__lt", "action", "action__isnull", "object_kind", "object_kind__isnull"),
    },
    "mcp_app.call": {"accepted_at__gte", "accepted_at__lt", "state", "tool"},
    "mcp_app.apidocument": set(),
    "mcp_app.limitrule": {
        *("mode__exact", "mode__isnull", "what__exact", "what__isnull", "who__exact", "who__isnull"),
    },
    "mcp_app.toolset": set(),
    "mcp_app.upstream": set(),
    "mcp_app.userconnection": {"upstream__id__exact", "upstream__isnull"},
    "mcp_app.credential": {"kind__exact", "kind__isnull"},
    "mcp_app.doctor": set(),
    "mcp_app.draft": {"kind"},
    "mcp_app.externalidentity": {"issuer", "issuer__isnull"},
    "mcp_app.message": set(),
    "mcp_app.prompt": {"source__exact", "enabled__exact", "missing"},
    "mcp_app.resource": {"source__exact", "enabled__exact", "missing"},
    "mcp_app.resourcetemplate": {
        *("source__exact", "enabled__exact", "missing"),
    },
    "mcp_app.session": {"created_at__gte", "created_at__lt"},
    "mcp_app.tool": {"source__exact", "enabled__exact", "missing"},
    "mcp_oauth.client": {"registration_source__exact", "registration_source__isnull"},
    "mcp_oauth.connection": set(),
}


def admins() -> dict[str, Any]:
    return {each.model._meta.label_lower: each for each in admin.site._registry.values()}


def lookups(model: type[models.Model]) -> Iterator[str]:
    """Yield every lookup and transform of every field, also on JSON keys and across one relation."""
    for field in model._meta.get_fields():
        yield field.name
        if isinstance(field, models.JSONField):
            yield from (f"{field.name}__{key}__{lookup}" for key in ("a", "0") for lookup in ("regex", "gt"))
        if field.is_relation:
            for inner in (field.related_model or model)._meta.get_fields():
                yield from (f"{field.name}__{inner.name}", f"{field.name}__{inner.name}__startswith")
        if isinstance(field, models.Field):
            yield from (f"{field.name}__{lookup}" for lookup in field.get_lookups())
            yield from (f"{field.attname}__{lookup}" for lookup in field.get_lookups())


def test_every_registered_list_is_covered() -> None:
    assert admins().keys() == OFFERED.keys()


@pytest.mark.parametrize("label", OFFERED)
def test_list_accepts_only_offered_lookups(label: str, seeded: Seed) -> None:
    """Every lookup that the list does not offer is refused before a query."""
    model_admin = admins()[label]
    if not isinstance(model_admin, ListedLookups):
        pytest.skip("without the skin, Django's own lists of users and groups keep Django's rule")
    answered = set()
    for name in {*lookups(model_admin.model), *OFFERED[label]}:
        request = RequestFactory().get("/", {name: "1"})
        request.user = seeded.root
        try:
            model_admin.get_changelist_instance(request)
        except DisallowedModelAdminLookup:
            continue
        except IncorrectLookupParameters:
            pass  # A filter of the list parsed the value; 1 is not a time.
        answered.add(name)
    assert answered == OFFERED[label]


@pytest.mark.parametrize("label", OFFERED)
@pytest.mark.parametrize("name", ["pk__regex", "id__iregex", "nothing__regex", "user__password__regex"])
def test_regex_lookup_returns_400(label: str, name: str, root: Client) -> None:
    """SQLite evaluates regular expressions in the web process:

    a single pattern blocked it until it was killed.
    """
    assert root.get(page(label), {name: r"((\w|\W)+)+QZ$"}).status_code == 400


@pytest.mark.parametrize(
    ("label", "name"),
    [("mcp_app.call", "session_fields__contains"), ("mcp_app.draft", "values__contains")],
)
def test_unsupported_lookup_returns_400(label: str, name: str, viewer: Client) -> None:
    """SQLite has no ``contains`` for JSON; the request had returned a server error."""
    assert viewer.get(page(label), {name: "x"}).status_code == 400


def test_regex_lookup_is_refused_in_lists_of_other_apps(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site refuses the lookup, not only the base class: Django's own list would accept it."""
    monkeypatch.setattr(type(admins()["mcp_app.tool"]), "get_changelist", lambda *_, **__: ChangeList)
    assert root.get(page("mcp_app.tool"), {"name__contains": "e"}).status_code == 200
    assert root.get(page("mcp_app.tool"), {"name__regex": "(e+)+"}).status_code == 400


def test_foreign_key_popup_accepts_only_its_limit(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """``limit_choices_to`` of a foreign key opens the list with that limit only."""
    monkeypatch.setattr(Tool._meta, "related_fkey_lookups", [{"background": True}])
    assert root.get(page("mcp_app.tool"), {"background": "1", "_popup": "1"}).status_code == 200
    assert root.get(page("mcp_app.tool"), {"background": "0", "_popup": "1"}).status_code == 400


def page(label: str) -> str:
    return reverse(f"admin:{label.replace('.', '_')}_changelist")


# Guessing letter by letter.

SECRET = "Zx7Quokka"
RIGHT, WRONG = SECRET[:4], SECRET[:3] + "9"
HIDDEN = {
    "mcp_app.call": ("arguments", "answer", "meta", "session_fields"),
    "mcp_app.approval": ("arguments", "answer", "meta", "session_fields"),
    "mcp_app.apikey": ("secret_hash",),
    "mcp_oauth.client": ("client_secret",),
    "auth.user": ("password",),
}
GUESSES = ("contains", "icontains", "startswith", "gt", "regex", "password__startswith")
LISTS = {"/api/calls/": "arguments", "/api/keys/": "secret_hash", "/api/sessions/": "fields"}


@pytest.fixture
def auditor(seeded: Seed, client_of: ClientOf) -> Client:
    """Return a client with every view permission, and create calls whose arguments hold a secret."""
    said = {"arguments": json.dumps({"password": SECRET}), "answer": json.dumps({"token": SECRET})}
    background_call(seeded.session.pk, 71, **said)
    undecided_call(seeded.session.pk, 72, **said | {"answer": ""})
    ApiKey.objects.filter(pk=seeded.key.pk).update(secret_hash=SECRET)
    seeded.viewer.user_permissions.add(*Permission.objects.filter(codename__startswith="view_"))
    return client_of("viewer")


def ways() -> Iterator[tuple[str, str]]:
    """Yield every list address with each parameter that could carry a guess."""
    for label, fields in HIDDEN.items():
        yield page(label), "q"
        yield from ((page(label), f"{field}__{guess}") for field in fields for guess in GUESSES)
        yield from ((page(label), name) for name in ("_to_field", "_facets", "o", "all"))
    for address, field in LISTS.items():
        yield from ((address, name) for name in (f"{field}__startswith", field, "search", "q"))
        yield from ((address, name) for name in ("ordering", "order", "cursor"))
    yield from ((reverse("admin:mcp_app_message_changelist"), name) for name in ("q", "payload__contains"))
    yield reverse("admin:mcp_app_message_figures"), "arguments__contains"
    yield reverse("mcp_find"), "q"


@pytest.mark.parametrize(("address", "name"), list(ways()))
def test_right_guess_of_a_hidden_value_equals_a_wrong_one(address: str, name: str, auditor: Client) -> None:
    answers = []
    for guess in (RIGHT, WRONG):
        answer = auditor.get(address, {name: guess}, headers={"Accept": "*/*"})
        assert answer.status_code < 500
        found = [str(pk) for pk in Call.objects.values_list("pk", flat=True) if str(pk) in answer.text]
        keys = [pk for pk in ApiKey.objects.values_list("pk", flat=True) if f"/apikey/{pk}/" in answer.text]
        answers.append((answer.status_code, found, keys))
    assert answers[0] == answers[1]


def test_no_list_orders_or_searches_by_a_hidden_field() -> None:
    """``?o=`` names a column of the list, so the test compares the columns' order fields."""
    request = RequestFactory().get("/")
    for label, fields in HIDDEN.items():
        model_admin = admins()[label]
        request.user = type("Root", (), {"has_perm": lambda *_: True, "has_perms": lambda *_: True})()
        columns = model_admin.get_list_display(request)
        ordered = {
            str(getattr(getattr(model_admin, name, None), "admin_order_field", name))
            for name in columns
            if isinstance(name, str)
        }
        searched = {name.lstrip("^=@").split("__")[0] for name in model_admin.get_search_fields(request)}
        assert not (ordered | searched) & set(fields), label


# Logging.


@pytest.fixture
def log_lines() -> Iterator[io.StringIO]:
    """Yield the output of this process's log handler."""
    (handler,) = [each for each in logging.getLogger().handlers if each.name == "stderr"]
    assert isinstance(handler, logging.StreamHandler)
    written = io.StringIO()
    before = handler.setStream(written)
    yield written
    handler.setStream(before)


@pytest.mark.parametrize("name", ["arguments__contains", "session_id__regex", "_to_field"])
def test_refused_lookup_logs_one_line(name: str, viewer: Client, log_lines: io.StringIO) -> None:
    """Each refusal had logged a traceback of some seventy lines."""
    assert viewer.get(page("mcp_app.call"), {name: "x"}).status_code == 400
    assert len(log_lines.getvalue().splitlines()) == 1


def test_suspicious_request_logs_one_line(
    viewer: Client, log_lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SuspiciousOperation("A body of too many fields.")

    monkeypatch.setattr(type(admins()["mcp_app.call"]), "get_changelist_instance", refuse)
    assert viewer.get(page("mcp_app.call")).status_code == 400
    assert len(log_lines.getvalue().splitlines()) == 1
