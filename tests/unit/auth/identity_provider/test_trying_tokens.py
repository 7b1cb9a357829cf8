"""The admin page that shows the state of the provider and tests a token without side effects."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client as Browser

from mcp_app.auth.identity_provider import provider as own_provider
from mcp_app.models import ExternalIdentity
from tests.servers.identity_provider import IdentityProvider

pytestmark = [pytest.mark.postgres]
LIST = "/admin/mcp_app/externalidentity/"
TRY = f"{LIST}try-token/"


@pytest.fixture
def operator(external: Any, transactional_db: None) -> Browser:
    """Return a browser of a user who may view identities and run the doctor."""
    external(OAUTH_AUDIENCE=["api://mcp"], OAUTH_GROUPS={"ops": "MCP operator"})
    user = get_user_model().objects.create_user("olga", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_externalidentity", "run_doctor"]))
    browser = Browser()
    browser.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return browser


def tried(browser: Browser, token: str) -> str:
    """Submit the token and return the page."""
    answer = browser.post(TRY, {"token": token})
    assert answer.status_code == 200
    page: str = answer.content.decode()
    assert token not in page
    return page


def fetched() -> None:
    """Wait until the provider was queried."""
    held = own_provider.verification()
    assert held is not None
    if (awaited := held.keys.arriving(None)) is not None:
        awaited.result()


def test_list_shows_loaded_keys(operator: Browser, provider: IdentityProvider) -> None:
    fetched()
    page = operator.get(LIST).content.decode()
    assert provider.issuer in page
    assert "Keys in use: " in page
    assert "This process has no keys" not in page


def test_list_shows_reason_for_missing_keys(
    operator: Browser, external: Any, provider: IdentityProvider
) -> None:
    external(OAUTH_ISSUER=f"{provider.issuer}/elsewhere")
    fetched()
    page = operator.get(LIST).content.decode()
    assert "This process has not fetched keys yet." in page
    assert "Last error: " in page


def test_trial_of_valid_token_shows_user_without_creating_it(
    operator: Browser, provider: IdentityProvider
) -> None:
    token = provider.token(aud="api://mcp", sub="person-1", groups=["ops"], scope="mcp mcp:tools")
    page = tried(operator, token)
    for words in ("Accepted.", "person-1", "a user is created", "mcp mcp:tools", "MCP operator"):
        assert words in page
    assert not ExternalIdentity.objects.exists()
    assert list(get_user_model().objects.values_list("username", flat=True)) == ["olga"]


def test_known_user_is_named_and_inactive_user_is_refused(
    operator: Browser, provider: IdentityProvider
) -> None:
    user = get_user_model().objects.create_user("grace")
    ExternalIdentity.objects.create(issuer=provider.issuer, subject="person-1", user=user)
    token = provider.token(aud="api://mcp", sub="person-1")
    page = tried(operator, token)
    assert "grace" in page
    assert "a user is created" not in page
    get_user_model().objects.filter(pk=user.pk).update(is_active=False)
    assert "grace, who is deactivated and therefore refused" in tried(operator, token)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "api://other"}, "another audience"),
        ({"exp": 1_000_000_000}, "expired"),
        ({"scope": "openid"}, "none of the scopes of this server"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"cnf": {"jkt": "x"}}, "proof of possession"),
    ],
)
def test_refused_token_shows_reason_and_is_not_logged(
    operator: Browser,
    provider: IdentityProvider,
    caplog: pytest.LogCaptureFixture,
    claims: dict[str, Any],
    reason: str,
) -> None:
    token = provider.token(**{"aud": "api://mcp", **claims})
    with caplog.at_level(logging.DEBUG):
        page = tried(operator, token)
    assert "Refused: " in page
    assert reason in page
    assert token not in caplog.text


def test_malformed_token_is_handled_and_escaped(operator: Browser) -> None:
    for text in ("<script>alert(1)</script>", "", "a.b.c", "x" * 10_000):
        answer = operator.post(TRY, {"token": text})
        assert answer.status_code == 200
        assert "<script>alert(1)" not in answer.content.decode()


def test_token_form_is_absent_without_provider(operator: Browser, external: Any) -> None:
    external(AUTH="required")
    assert "Test a token" not in operator.get(LIST).content.decode()
    assert operator.post(TRY, {"token": "x"})["Location"] == LIST
