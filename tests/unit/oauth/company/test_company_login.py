"""Company login on the local login page: mapping to users, and refusals."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote_plus

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client as Browser

from mcp_app.models import AuditEvent, ExternalIdentity
from tests.servers.identity_provider import IdentityProvider
from tests.unit.oauth.company.conftest import NEXT, SECRET, US, Company, challenge_of
from tests.unit.oauth.flow import BASE, HOST

pytest.importorskip("allauth", reason="requirements-sso.txt is not installed")
CALLBACK = f"{BASE}/accounts/company/callback/"


def test_login_page_offers_company_login_and_password(company: Company) -> None:
    page = company.browser.get("/accounts/login/", {"next": "/oauth/authorize?a=1&b=2"}).content.decode()
    assert "Log in with <bdi>Example Inc.</bdi>" in page
    assert "/accounts/company/login/?next=%2Foauth%2Fauthorize%3Fa%3D1%26b%3D2" in page
    assert 'name="password"' in page


def test_authorization_request_has_state_nonce_and_challenge(company: Company) -> None:
    asked = company.leave()
    assert (asked["client_id"], asked["redirect_uri"], asked["response_type"]) == (US, CALLBACK, "code")
    assert set(asked["scope"].split()) == {"openid", "profile", "email"}
    assert asked["code_challenge_method"] == "S256"
    assert asked["state"] != company.leave()["state"]


def test_link_parameters_cannot_change_authorization_request(company: Company) -> None:
    asked = company.leave(
        auth_params="redirect_uri=https://evil.example", scope="admin", process="redirect", action="rerequest"
    )
    assert asked["redirect_uri"] == CALLBACK
    assert "admin" not in asked["scope"]
    assert company.come_back(asked)["Location"] == NEXT
    assert company.user


def test_first_login_creates_user_with_mapped_groups_and_redirects_to_next(
    company: Company,
) -> None:
    answer = company.log_in()
    assert (answer.status_code, answer["Location"]) == (302, NEXT)
    identity = ExternalIdentity.objects.get(issuer=company.provider.issuer, subject="person-1")
    assert identity.user.get_username() == "grace"
    assert not identity.user.has_usable_password()
    assert [group.name for group in identity.user.groups.all()] == ["MCP operator"]
    assert company.user == str(identity.user.pk)
    assert AuditEvent.objects.filter(action="identity.create").exists()


def test_second_login_finds_user_and_removes_lost_groups(company: Company) -> None:
    company.log_in(iat=1_000)
    company.person = {"sub": "person-1", "groups": []}
    company.browser.post("/accounts/logout/")
    assert not company.user
    company.log_in()
    user = ExternalIdentity.objects.get().user
    assert company.user == str(user.pk)
    assert not user.groups.exists()


def test_token_request_has_secret_and_verifier_and_nothing_is_stored(company: Company) -> None:
    company.provider.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    asked = company.leave()
    company.come_back(asked)
    (path, headers, form), (_, asked_headers, _) = company.provider.sent
    assert path == "/token"
    pair = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
    assert pair == f"{quote_plus(US)}:{quote_plus(SECRET)}"
    assert challenge_of(form["code_verifier"]) == asked["code_challenge"]
    assert (form["code"], form["redirect_uri"]) == ("the code", CALLBACK)
    assert asked_headers["Authorization"] == "Bearer at"
    for label in ("account", "socialaccount"):
        assert not any(model.objects.exists() for model in apps.get_app_config(label).get_models())


def test_client_secret_is_posted_if_provider_supports_post(company: Company) -> None:
    company.provider.metadata["token_endpoint_auth_methods_supported"] = [
        "client_secret_basic",
        "client_secret_post",
    ]
    company.log_in()
    _, headers, form = company.provider.sent[0]
    assert "Authorization" not in headers
    assert (form["client_id"], form["client_secret"]) == (US, SECRET)


def test_login_works_without_userinfo_endpoint(company: Company) -> None:
    del company.provider.metadata["userinfo_endpoint"]
    company.log_in(preferred_username="hopper")
    assert get_user_model().objects.filter(username="hopper").exists()


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another client"},
        {"iss": "https://evil.example"},
        {"exp": 1_000},
        {"nonce": "another"},
        {"nonce": None},
        {"azp": "another client"},
        {"sub": "person-2"},
        {"sub": "line\nbreak"},
        {"iat": "soon"},
    ],
)
def test_invalid_id_token_is_refused(company: Company, claims: dict[str, Any]) -> None:
    answer = company.log_in(**claims)
    assert answer.status_code in (400, 502)
    assert not company.user
    assert not ExternalIdentity.objects.exists()
    assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]


@pytest.mark.parametrize(
    "answers",
    [
        {"/token": (400, {"error": "invalid_grant"})},
        {"/token": (200, {})},
        {"/token": (200, ["at"])},
        {"/token": (200, None)},
        {"/token": (200, {"access_token": "at", "id_token": "no token"})},
        {"/token": (200, {"access_token": "at", "id_token": 7})},
        {"/token": (200, {"access_token": "at", "expires_in": "later"})},
        {"/token": (200, {"access_token": "at"}), "/me": (500, {})},
        {"/token": (200, {"access_token": "at"}), "/me": (200, {"sub": "person-1"})},
    ],
)
def test_malformed_provider_answer_shows_error_page_without_secrets(
    company: Company, answers: dict[str, tuple[int, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    asked = company.leave()
    company.provider.answers = answers
    answer = company.back(state=asked["state"], code="the code")
    assert answer.status_code in (400, 502)
    assert "You are not logged in" in answer.content.decode()
    assert not company.user
    assert SECRET not in caplog.text
    assert "the code" not in caplog.text


def test_state_is_valid_once_in_its_browser(company: Company) -> None:
    asked = company.leave()
    assert company.come_back(asked).status_code == 302
    company.browser.post("/accounts/logout/")
    assert company.come_back(asked).status_code == 400
    fresh = company.leave()
    company.browser.cookies.clear()
    assert company.come_back(fresh).status_code == 400
    assert not company.user


@pytest.mark.parametrize(
    ("error", "words"), [("access_denied", "cancelled"), ("server_error", "refused the login")]
)
def test_provider_error_is_shown_in_local_words(company: Company, error: str, words: str) -> None:
    asked = company.leave()
    answer = company.back(state=asked["state"], error=error, error_description="<b>mine</b>")
    assert words in answer.content.decode()
    assert "mine" not in answer.content.decode()
    # A forged link cannot show a message in the name of the provider either.
    assert words not in company.back(state=asked["state"], error=error).content.decode()


def test_unknown_user_is_refused_if_user_creation_is_disabled(company: Company, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_CREATE_USERS": False}
    answer = company.log_in()
    assert (answer.status_code, company.user) == (403, "")
    assert "no account" in answer.content.decode()


def test_deactivated_user_is_refused(company: Company) -> None:
    company.log_in()
    get_user_model().objects.update(is_active=False)
    company.browser.cookies.clear()
    assert company.log_in().status_code == 403


def test_login_replaces_previous_user_in_browser(company: Company) -> None:
    company.log_in()
    first = company.user
    company.person = {"sub": "person-2"}
    company.log_in(sub="person-2")
    assert company.user not in ("", first)


@pytest.mark.parametrize("where", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_unsafe_next_url_is_replaced_by_default(company: Company, where: str) -> None:
    assert company.come_back(company.leave(next=where))["Location"] == "/oauth/apps"


def test_unreachable_provider_is_not_queried_repeatedly(company: Company) -> None:
    company.provider.away = True
    for _ in range(5):
        answer = company.browser.get("/accounts/company/login/")
        assert answer.status_code == 502
    assert len(company.provider.asked) <= 3


def test_provider_metadata_is_cached_across_logins(company: Company) -> None:
    for _ in range(3):
        company.log_in()
    assert company.provider.asked.count(company.provider.metadata_path) == 1


def test_provider_with_mismatched_issuer_is_refused(company: Company) -> None:
    company.provider.metadata["issuer"] = "https://evil.example"
    assert company.browser.get("/accounts/company/login/").status_code == 502


def test_private_provider_requires_egress_allow(company: Company, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": []}
    assert company.browser.get("/accounts/company/login/").status_code == 502
    assert company.provider.asked == []


@pytest.mark.parametrize(
    "changed", [{"LOGIN_ISSUER": ""}, {"OAUTH": False}, {"AUTH": "loopback", "LOOPBACK": True}]
)
def test_company_login_is_not_found_if_not_offered(
    company: Company, settings: Any, changed: dict[str, Any]
) -> None:
    asked = company.leave()
    settings.MCP = {**settings.MCP, **changed}
    assert company.browser.get("/accounts/company/login/").status_code == 404
    assert company.come_back(asked).status_code == 404


def test_changed_issuer_setting_takes_effect(company: Company, settings: Any) -> None:
    company.leave()
    with IdentityProvider() as other:
        settings.MCP = {**settings.MCP, "LOGIN_ISSUER": other.issuer}
        moved = Company(other, company.browser)
        assert moved.leave()["client_id"] == US


def test_company_login_requires_local_second_factor(company: Company) -> None:
    pytest.importorskip("qrcode", reason="requirements-sso.txt is not installed")
    from mcp_app.oauth.second_factor import factors

    company.log_in()
    factors.set_up(get_user_model().objects.get(), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", 1)
    company.browser.post("/accounts/logout/")
    assert company.log_in()["Location"] == "/accounts/second-factor/code/"
    assert not company.user


def seen_by_an_operator() -> str:
    """Return the admin page about the provider as an operator sees it."""
    user = get_user_model().objects.create_user("olga", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_externalidentity"))
    browser = Browser(HTTP_HOST=HOST)
    browser.force_login(user, "django.contrib.auth.backends.ModelBackend")
    page: str = browser.get("/admin/mcp_app/externalidentity/").content.decode()
    return page


def test_admin_shows_provider_before_first_login(company: Company) -> None:
    page = seen_by_an_operator()
    assert company.provider.issuer in page
    assert "This process has not contacted it yet" in page
    assert "Last login: none yet." in page
    assert company.provider.asked == []


def test_admin_shows_provider_endpoints_after_login(company: Company) -> None:
    company.log_in()
    page = seen_by_an_operator()
    assert company.provider.metadata["token_endpoint"] in page
    assert "Last login: none yet." not in page
    assert "Last error" not in page
    assert SECRET not in page


def test_admin_shows_reason_of_failed_login(company: Company) -> None:
    company.provider.away = True
    assert company.browser.get("/accounts/company/login/").status_code == 502
    page = seen_by_an_operator()
    assert "Last error" in page
    assert "does not say where to log in. " in page
    assert "answered 503" in page


def test_admin_hides_company_login_if_not_configured(company: Company, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "LOGIN_ISSUER": ""}
    assert "Company login" not in seen_by_an_operator()
