"""No login page admits a user without the second factor that the user has or must have."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import authenticate, get_user_model
from django.test import Client as Browser
from django.test import RequestFactory

from mcp_app.oauth.second_factor import gate
from tests.unit.oauth.flow import HOST
from tests.unit.oauth.second_factor.app import App
from tests.unit.oauth.second_factor.conftest import CODE, OWN, PASSWORD, SET_UP, Visitor

pytestmark = pytest.mark.postgres
DOORS = ("/accounts/login/", "/admin/login/")


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    """Return one of the pages that accept passwords."""
    return str(request.param)


def test_test_app_matches_rfc_6238_vectors() -> None:
    secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"  # RFC 6238, appendix B
    assert [App(secret).code(at=at) for at in (59, 1111111109, 20000000000)] == ["287082", "081804", "353130"]


def test_password_is_sufficient_without_second_factor(door: str, person: Any) -> None:
    visitor = Visitor("ada")
    assert visitor.log_in(door, following="/oauth/apps?x=1")["Location"] == "/oauth/apps?x=1"
    assert visitor.user == str(person.pk)


def test_password_and_code_are_required_with_second_factor(
    door: str, person: Any, app: tuple[App, list[str]]
) -> None:
    visitor = Visitor("ada")
    assert visitor.log_in(door, following="/oauth/apps?x=1")["Location"] == CODE
    assert not visitor.user
    assert visitor.browser.get("/admin/")["Location"].startswith("/admin/login/")
    assert visitor.browser.get(OWN)["Location"].startswith("/accounts/login/")
    refused = visitor.give(app[0].wrong())
    assert "Wrong code" in refused.content.decode()
    assert not visitor.user
    assert visitor.give(app[0].code())["Location"] == "/oauth/apps?x=1"
    assert visitor.user == str(person.pk)


def test_code_is_required_without_oauth(
    door: str, person: Any, app: tuple[App, list[str]], settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "OAUTH": False}
    visitor = Visitor("ada")
    assert visitor.log_in(door, following="/connections/")["Location"] == CODE
    assert not visitor.user
    assert visitor.browser.get("/connections/")["Location"].startswith("/accounts/login/")
    assert visitor.give(app[0].code())["Location"] == "/connections/"
    assert visitor.user == str(person.pk)


def test_wrong_password_does_not_reveal_second_factor(door: str, app: tuple[App, list[str]]) -> None:
    visitor = Visitor("ada")
    answer = visitor.log_in(door, password="wrong")
    assert answer.status_code == 200
    assert "second factor" not in answer.content.decode().lower()
    assert visitor.browser.get(CODE).status_code == 400


def test_next_url_leads_to_no_other_site(door: str, app: tuple[App, list[str]]) -> None:
    visitor = Visitor("ada")
    visitor.log_in(door, following="https://evil.example/")
    answer = visitor.log_in(door, following="//evil.example/")
    assert "evil" not in answer["Location"]
    visitor.log_in("/accounts/login/", following="https://evil.example/")
    assert visitor.give(app[0].code())["Location"] == "/oauth/apps"


def test_code_of_another_user_is_refused(app: tuple[App, list[str]]) -> None:
    get_user_model().objects.create_superuser("eve", password=PASSWORD)
    eve = Visitor("eve")
    eve.log_in()
    eve.set_up()
    again = Visitor("eve")
    again.log_in()
    assert not again.give(app[0].code()).has_header("Location")
    assert not again.user


def test_code_page_requires_password_first(app: tuple[App, list[str]]) -> None:
    stranger = Visitor("ada")
    assert stranger.browser.get(CODE).status_code == 400
    assert stranger.give(app[0].code()).status_code == 400
    assert stranger.browser.get(SET_UP).status_code == 400
    assert not stranger.user


def test_pending_login_ends_when_password_changes(person: Any, app: tuple[App, list[str]]) -> None:
    visitor = Visitor("ada")
    visitor.log_in()
    person.set_password("another long password")
    person.save()
    assert visitor.give(app[0].code()).status_code == 400


def test_pending_login_ends_on_deactivation_or_timeout(person: Any, app: tuple[App, list[str]]) -> None:
    visitor = Visitor("ada")
    visitor.log_in()
    session = visitor.browser.session
    session["mcp_second_factor"] |= {"until": 1}
    session.save()
    assert visitor.browser.get(CODE).status_code == 400
    visitor.log_in()
    person.is_active = False
    person.save()
    assert visitor.give(app[0].code()).status_code == 400


def test_session_key_changes_after_each_step(app: tuple[App, list[str]]) -> None:
    visitor = Visitor("ada")
    visitor.browser.session.save()  # An anonymous session, as an attacker could have planted it.
    keys = [visitor.browser.session.session_key]
    visitor.log_in()
    keys.append(visitor.browser.session.session_key)
    visitor.give(app[0].code())
    keys.append(visitor.browser.session.session_key)
    assert visitor.user
    assert None not in keys
    assert len(set(keys)) == 3


def test_pending_login_ends_session_of_previous_user(app: tuple[App, list[str]]) -> None:
    get_user_model().objects.create_user("eve", password=PASSWORD)
    visitor = Visitor("eve")
    visitor.log_in()
    assert visitor.user
    visitor.name = "ada"
    visitor.log_in()
    assert not visitor.user


def test_authenticate_raises_if_second_factor_is_due(rf: RequestFactory, app: tuple[App, list[str]]) -> None:
    with pytest.raises(gate.SecondFactorRequired):
        authenticate(rf.post("/"), username="ada", password=PASSWORD)
    assert authenticate(rf.post("/"), username="ada", password="wrong") is None


def test_missing_library_denies_users_with_second_factor(
    door: str, app: tuple[App, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = apps.is_installed
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "allauth.mfa" and there(name))
    visitor = Visitor("ada")
    answer = visitor.log_in(door)
    assert answer.status_code == 503
    assert "cannot be checked now" in answer.content.decode()
    assert not visitor.user


@pytest.mark.parametrize(("required", "name"), [("staff", "ada"), ("everybody", "ada"), ("everybody", "bob")])
def test_required_second_factor_is_set_up_before_login(
    settings: Any, door: str, required: str, name: str
) -> None:
    settings.MCP = {**settings.MCP, "SECOND_FACTOR": required}
    get_user_model().objects.create_user("bob", password=PASSWORD)
    visitor = Visitor(name)
    assert visitor.log_in(door, following="/oauth/apps?x=1")["Location"] == SET_UP
    assert not visitor.user
    shown = visitor.browser.get(SET_UP).content.decode()
    assert "This server requires a second factor for" in shown
    app, codes = visitor.set_up()
    assert visitor.user
    again = Visitor(name)
    assert again.log_in(door)["Location"] == CODE
    assert again.give(app.code())["Location"] == "/oauth/apps"
    assert codes


def test_staff_requirement_does_not_apply_to_other_users(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SECOND_FACTOR": "staff"}
    get_user_model().objects.create_user("bob", password=PASSWORD)
    visitor = Visitor("bob")
    assert visitor.log_in()["Location"] == "/oauth/apps"


def test_sessions_without_newly_required_second_factor_end(settings: Any, person: Any) -> None:
    visitor = Visitor("ada")
    visitor.log_in("/admin/login/")
    assert visitor.browser.get("/admin/").status_code == 200
    settings.MCP = {**settings.MCP, "SECOND_FACTOR": "staff"}
    assert visitor.browser.get("/admin/")["Location"].startswith("/admin/login/")
    assert not visitor.user


def test_required_second_factor_cannot_be_removed(settings: Any, app: tuple[App, list[str]]) -> None:
    settings.MCP = {**settings.MCP, "SECOND_FACTOR": "staff"}
    visitor = Visitor("ada")
    visitor.log_in()
    visitor.give(app[0].code())
    assert "Remove second factor" not in visitor.browser.get(OWN).content.decode()
    visitor.give(app[1][0], OWN, do="remove")
    assert gate.has_factor(get_user_model().objects.get(username="ada"))


def test_forms_require_csrf_token(app: tuple[App, list[str]]) -> None:
    strict = Browser(HTTP_HOST=HOST, enforce_csrf_checks=True)
    for page in (CODE, SET_UP, OWN):
        assert strict.post(page, {"code": app[0].code()}).status_code == 403
