"""The authorization endpoint: consent page, errors shown locally, and errors returned to a client."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from django.contrib.auth import get_user_model
from django.test import Client as Browser

from mcp_app.egress.client import Fetched
from mcp_app.egress.policy import Policy
from mcp_app.limits import current
from mcp_app.limits.services import save_rule
from mcp_app.oauth.consent import WAITING
from mcp_app.oauth.documents import _failed, find_or_fetch
from mcp_app.oauth.models import Client, Connection, UsedAssertion
from mcp_app.oauth.registration import create_client, metadata_of
from tests.unit.oauth.flow import ALL, BASE, CALLBACK, HOST, Program, sent_back

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
WEB = "https://client.example/callback"


@pytest.fixture
def entered(browser: Browser) -> Program:
    """Return a web client vouched for by an administrator."""
    client, _ = create_client(metadata_of({"client_name": "Entered", "redirect_uris": [WEB]}), actor=None)
    return Program(browser, client.client_id, WEB)


@pytest.mark.requirement("AUTH-39")
@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": None},
        {"client_id": "unknown"},
        {"client_id": "a\x00b"},
        {"client_id": "https://127.0.0.1/client.json"},
        {"client_id": "https://client.example/"},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "http://evil.example/callback"},
        {"redirect_uri": WEB + "?more=1"},
        {"redirect_uri": WEB + "/"},
        {"redirect_uri": WEB + "#part"},
        {"redirect_uri": "https://client.example:444/callback"},
        {"redirect_uri": "https://user@client.example/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": [WEB, WEB]},
        {"state": "x" * 9_000},
    ],
)
def test_unproven_client_or_redirect_uri_is_never_redirected_to(
    entered: Program, changed: dict[str, Any]
) -> None:
    answer = entered.ask(**changed)
    assert answer.status_code == 400
    assert "cannot be connected" in answer.content.decode()
    assert "Location" not in answer


@pytest.mark.requirement("AUTH-30", "AUTH-34", "AUTH-35")
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unauthorized_client"),
        ({"response_type": None}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": [f"{BASE}/mcp", "https://other.example/mcp"]}, "invalid_target"),
        ({"resource": f"{BASE}/mcp?x=1"}, "invalid_target"),
        ({"resource": f"{BASE}/other"}, "invalid_target"),
    ],
)
def test_error_redirect_has_error_state_and_issuer(
    entered: Program, changed: dict[str, Any], error: str
) -> None:
    answer = entered.ask(**changed)
    assert answer["Location"].startswith(WEB + "?")
    told = sent_back(answer)
    assert (told["error"], told["iss"], told["state"]) == (error, BASE, "as sent")


@pytest.mark.requirement("AUTH-34", "AUTH-39")
def test_self_registered_web_address_gets_no_error_redirect(browser: Browser) -> None:
    stranger = Program(browser, redirect_uri="https://stranger.example/callback")
    answer = stranger.ask(response_type="token")
    assert answer.status_code == 400
    assert "unsupported_response_type" in answer.content.decode()
    told = sent_back(stranger.decide(stranger.ask(), "deny"))
    assert (told["error"], told["iss"], told["state"]) == ("access_denied", BASE, "as sent")


def published(address: str, callback: str) -> None:
    """Store a document as if this server had fetched it."""

    async def fetched(url: str, policy: Policy) -> Fetched:
        said = {"client_id": url, "client_name": "Published", "redirect_uris": [callback]}
        return Fetched(url, 200, "application/json", "", orjson.dumps(said))

    find_or_fetch(address, fetched)


@pytest.mark.requirement("AUTH-39", "AUTH-43")
@pytest.mark.parametrize(
    ("hosts", "is_sent"), [(("*",), False), (("client.example",), True), (("*", "client.example"), True)]
)
def test_error_redirect_to_document_client_requires_trusted_host(
    browser: Browser, settings: Any, hosts: tuple[str, ...], is_sent: bool
) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_DOCUMENT_HOSTS": hosts}
    address = "https://client.example/metadata.json"
    published(address, WEB)
    program = Program(browser, address, WEB)
    answer = program.ask(response_type="token")
    assert answer.status_code == (302 if is_sent else 400)
    assert ("Location" in answer) == is_sent


@pytest.mark.requirement("AUTH-39", "AUTH-42")
def test_document_is_fetched_only_for_logged_in_user(person: Any, settings: Any) -> None:
    address = "https://client.example/not-known.json"
    program = Program(Browser(HTTP_HOST=HOST), address, WEB)
    answer = program.ask()
    assert answer["Location"].startswith("/accounts/login/?next=")
    assert address not in _failed
    published(address, WEB)
    assert program.ask()["Location"].startswith("/accounts/login/?next=")


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, ALL),
        ("mcp", "mcp"),
        ("offline_access", ALL),
        ("openid mcp mcp:tools offline_access unknown", "mcp mcp:tools"),
        ("claudeai", ALL),
        ("mcp:admin mcp", "mcp mcp:admin"),
    ],
)
def test_known_part_of_requested_scopes_is_granted(program: Program, asked: str | None, given: str) -> None:
    assert program.connect(scope=asked)["scope"] == given


@pytest.mark.requirement("AUTH-49")
def test_consent_page_shows_client_scopes_and_destination(program: Program, entered: Program) -> None:
    page = program.ask().content.decode()
    for words in (
        "Test client",
        "unverified",
        "http://127.0.0.1:33418",
        f"{BASE}/mcp",
        "ada",
        "Call tools",
        "Deny",
    ):
        assert words in page, words
    page = entered.ask().content.decode()
    assert "added by an administrator" in page
    assert "unverified" not in page
    address = "https://client.example/metadata.json"
    for callback, warns in ((WEB, False), (CALLBACK, True)):
        published(address, callback)
        page = Program(program.browser, address, callback).ask().content.decode()
        assert "published by client.example" in page
        assert ("Any app on this machine can pretend to be this one" in page) == warns
        Client.objects.filter(client_id=address).delete()


@pytest.mark.requirement("AUTH-40")
def test_consent_page_cannot_be_framed_and_form_action_is_restricted(program: Program) -> None:
    answer = program.ask()
    policy = answer["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' http://127.0.0.1:33418;" in policy
    assert answer["X-Frame-Options"] == "DENY"
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.requirement("AUTH-32", "AUTH-40")
def test_form_action_allows_ipv6_loopback_by_scheme(browser: Browser) -> None:
    answer = Program(browser, redirect_uri="http://[::1]:33418/callback").ask()
    # A policy cannot name such an address: browsers skip sources with brackets.
    assert "form-action 'self' http:;" in answer["Content-Security-Policy"]


@pytest.mark.requirement("AUTH-40")
def test_consent_is_valid_once_in_time_for_same_user(program: Program, person: Any) -> None:
    page = program.ask()
    assert sent_back(program.decide(page))["code"]
    assert program.decide(page).status_code == 400
    other = get_user_model().objects.create_user("eve", password="another long password")
    page, browser = program.ask(), program.browser
    program.browser = Browser(HTTP_HOST=HOST)
    program.browser.force_login(other, "django.contrib.auth.backends.ModelBackend")
    assert program.decide(page).status_code == 400
    program.browser = browser
    session = browser.session
    waiting = session[WAITING]
    session[WAITING] = {key: {**each, "until": time.time() - 1} for key, each in waiting.items()}
    session.save()
    assert program.decide(page).status_code == 400
    assert Connection.objects.count() == 1


@pytest.mark.requirement("AUTH-40")
def test_stale_session_cannot_repeat_consent(program: Program) -> None:
    page, browser = program.ask(), program.browser
    before = browser.session[WAITING]
    assert sent_back(program.decide(page))["code"]
    session = browser.session
    session[WAITING] = before  # A stale read of another process.
    session.save()
    assert program.decide(page).status_code == 400
    assert Connection.objects.count() == 1
    # Nothing but the record of the decision stands in the way of the same ticket.
    UsedAssertion.objects.all().delete()
    session[WAITING] = before
    session.save()
    assert sent_back(program.decide(page))["code"]


@pytest.mark.requirement("AUTH-40")
def test_consent_requires_csrf_token(program: Program, person: Any) -> None:
    strict = Browser(HTTP_HOST=HOST, enforce_csrf_checks=True)
    strict.force_login(person, "django.contrib.auth.backends.ModelBackend")
    program.browser = strict
    assert program.decide(program.ask()).status_code == 403
    assert not Connection.objects.exists()


def test_login_of_non_staff_user_leads_to_consent_page(program: Program) -> None:
    program.browser = Browser(HTTP_HOST=HOST)
    asked = program.ask()
    assert asked.status_code == 302
    login = asked["Location"]
    wanted = program.browser.get(login).context["next"]
    form = {
        "username": "ada",
        "password": "a long enough password",
        "next": wanted,
    }
    answer = program.browser.post(login, form)
    assert "Call tools" in program.browser.get(answer["Location"]).content.decode()


@pytest.mark.parametrize("asked_for", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_login_does_not_redirect_to_unsafe_url(person: Any, asked_for: str) -> None:
    browser = Browser(HTTP_HOST=HOST)
    form = {"username": "ada", "password": "a long enough password", "next": asked_for}
    assert browser.post("/accounts/login/", form)["Location"] == "/oauth/apps"


def test_password_guessing_is_rate_limited(person: Any) -> None:
    browser = Browser(HTTP_HOST=HOST)
    answers = [
        browser.post("/accounts/login/", {"username": "ada", "password": f"wrong {number}"}).status_code
        for number in range(11)
    ]
    assert answers[0] == 200
    assert answers[-1] == 429


def test_user_ends_own_connections_only(program: Program, person: Any) -> None:
    program.connect()
    connection = Connection.objects.get()
    assert "Test client" in program.browser.get("/oauth/apps").content.decode()
    other = Browser(HTTP_HOST=HOST)
    other.force_login(
        get_user_model().objects.create_user("eve", password="x"), "django.contrib.auth.backends.ModelBackend"
    )
    for number in (str(connection.pk), "", "9" * 30, "²", "-1"):
        assert other.post("/oauth/apps", {"connection": number}).status_code == 302
    assert Connection.objects.get().live
    program.browser.post("/oauth/apps", {"connection": str(connection.pk)})
    assert not Connection.objects.get().live


@pytest.mark.requirement("AUTH-20")
@pytest.mark.parametrize(
    "path",
    [
        "/oauth/authorize",
        "/oauth/token",
        "/oauth/register",
        "/oauth/apps",
        "/.well-known/oauth-authorization-server",
    ],
)
@pytest.mark.parametrize("changed", [{"OAUTH": False}, {"AUTH": "loopback"}, {"PUBLIC_URL": ""}])
def test_disabled_oauth_endpoints_return_404(
    settings: Any, path: str, changed: dict[str, Any], db: None
) -> None:
    settings.MCP = {**settings.MCP, **changed}
    assert Browser(HTTP_HOST=HOST).get(path).status_code == 404


def test_disabled_client_gets_remedy(program: Program) -> None:
    Client.objects.update(disabled_at="2026-01-01T00:00:00Z")
    answer = program.ask()
    assert answer.status_code == 400
    assert "add it again" in answer.content.decode()


def test_loopback_redirect_port_may_differ(program: Program) -> None:
    other = CALLBACK.replace("33418", "51234")
    assert sent_back(program.decide(program.ask(redirect_uri=other)))["code"]


def test_user_sees_own_limits_with_the_connected_apps(program: Program, person: Any) -> None:
    save_rule(actor=None, name="each", who="user", who_value="*", budget=10)
    save_rule(actor=None, name="others", who="key", who_value="*", rate=1)
    current.load()
    program.connect()
    page = program.browser.get("/oauth/apps")
    assert [fill.bucket.rule.name for fill in page.context["fills"]] == ["each"]
