"""Logins at a server whose answers the test chooses: discovery, attacks on the redirect, tokens."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.test import Client as Browser
from django.test import modify_settings, override_settings

from mcp_app.auth.bench import bench_key
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.sources.upstream import known
from mcp_app.catalogue.sources.upstream.accounts import with_account
from mcp_app.catalogue.upstreams import refreshing, storing
from mcp_app.connections import login
from mcp_app.credentials import services as credentials
from mcp_app.database import clock
from mcp_app.doctor import upstreams as doctor_check
from mcp_app.models import AuditEvent, Upstream, UpstreamClient, UserConnection
from mcp_app.protocol.client.challenges import parameters_of
from mcp_app.protocol.client.faults import UpstreamFault
from mcp_app.streams.blocking import shared_values
from mcp_app.upstreams import health
from mcp_app.upstreams.accounts import use
from mcp_app.upstreams.accounts.reach import covers, policy_for
from mcp_app.upstreams.accounts.tokens import opened
from tests.integration.connections.steps import HERE, back, begin, browser_of, connect, publish, whoami
from tests.servers.login_server import LoginServer, login_server

pytestmark = pytest.mark.django_db(transaction=True)


# The authorization request.


@pytest.mark.requirement("INT-73")
def test_authorization_request_has_pkce_state_and_resource(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    asked = begin(browser_of(ada), crm)
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["code_challenge"]) == 43
    assert asked["resource"] == site.url
    assert asked["scope"] == "read write"
    assert asked["brand"] == "x"
    assert asked["redirect_uri"] == f"{HERE}/connections/{crm.pk}/callback"
    assert asked["client_id"] == "client-1"


def test_client_is_registered_once_for_all_users(
    crm: Upstream, ada: Any, bob: Any, site: LoginServer
) -> None:
    assert [begin(browser_of(user), crm)["client_id"] for user in (ada, bob)] == ["client-1"] * 2
    (said,) = site.registered
    assert said["redirect_uris"] == [f"{HERE}/connections/{crm.pk}/callback"]
    assert said["token_endpoint_auth_method"] == "none"


def test_unused_registration_is_renewed(crm: Upstream, ada: Any, site: LoginServer) -> None:
    begin(browser_of(ada), crm)
    UpstreamClient.objects.update(created_at=clock.now(-7_200))
    assert begin(browser_of(ada), crm)["client_id"] == "client-2"


def test_document_is_the_client_where_the_server_takes_documents(
    crm: Upstream, ada: Any, site: LoginServer, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "PUBLIC_URL": "https://here.example"}
    site.metadata = {"client_id_metadata_document_supported": True}
    asked = begin(browser_of(ada), crm)
    place = f"https://here.example/connections/{crm.pk}/client.json"
    assert (asked["client_id"], site.registered) == (place, [])
    document = Browser().get(urlsplit(place).path).json()
    assert document["client_id"] == place
    assert document["redirect_uris"] == [asked["redirect_uri"]]
    assert document["token_endpoint_auth_method"] == "none"


def test_document_is_not_served_without_https() -> None:
    assert Browser().get("/connections/7/client.json").status_code == 404


def test_entered_client_authenticates_with_its_secret(crm: Upstream, ada: Any, site: LoginServer) -> None:
    secret = {"client_id": "ours", "client_secret": "s3cret-of-the-client"}
    credentials.save_credential(
        actor=None, name="app", kind="oauth_client", origins=[site.origin], scopes="crm:read", secret=secret
    )
    storing.save_upstream(actor=None, upstream=crm, oauth_client="app")
    browser = browser_of(ada)
    asked = begin(browser, crm)
    assert (asked["client_id"], asked["scope"], site.registered) == ("ours", "crm:read", [])
    assert back(browser, crm, state=asked["state"], code=site.code("ada"), iss=site.origin).status_code == 302
    assert site.authorizations[-1].startswith("Basic ")
    assert "client_secret" not in site.forms_at("/token")[-1]


def test_entered_client_is_sent_to_its_servers_only(crm: Upstream, ada: Any, site: LoginServer) -> None:
    secret = {"client_id": "ours", "client_secret": "s3cret-of-the-client"}
    credentials.save_credential(
        actor=None, name="app", kind="oauth_client", origins=["https://other.example"], secret=secret
    )
    storing.save_upstream(actor=None, upstream=crm, oauth_client="app")
    page = browser_of(ada).post(f"/connections/{crm.pk}/connect/")
    assert page.status_code == 400
    assert "not bound" in page.context["reason"]
    assert site.forms == []


def test_entered_client_logs_in_at_its_servers_only(crm: Upstream, ada: Any, site: LoginServer) -> None:
    secret = {"client_id": "ours", "client_secret": "s3cret-of-the-client"}
    credentials.save_credential(
        actor=None, name="app", kind="oauth_client", origins=[site.origin], secret=secret
    )
    storing.save_upstream(actor=None, upstream=crm, oauth_client="app")
    site.metadata = {"authorization_endpoint": "https://other.example/authorize"}
    page = browser_of(ada).post(f"/connections/{crm.pk}/connect/")
    assert page.status_code == 400
    assert "not bound" in page.context["reason"]


NO_ISSUER = {"authorization_response_iss_parameter_supported": None}
WRONG: dict[str, dict[str, Any]] = {
    "issuer": {"issuer": "https://other.example"},
    "issuer with a slash": {"issuer": "{origin}/"},
    "no PKCE": {"code_challenge_methods_supported": None},
    "plain PKCE": {"code_challenge_methods_supported": ["plain"]},
    "script as endpoint": {"authorization_endpoint": "javascript:alert(1)"},
    "endpoint without https": {"token_endpoint": "http://other.example/token"},
    "no token endpoint": {"token_endpoint": None},
    "no registration": {"registration_endpoint": None},
    # Without an issuer in responses, no endpoint may belong to another server.
    "login page of another server": {
        "authorization_endpoint": "https://other.example/authorize",
        **NO_ISSUER,
    },
    "token endpoint of another server": {"token_endpoint": "https://other.example/token", **NO_ISSUER},
    "revocation at another server": {"revocation_endpoint": "https://other.example/revoke", **NO_ISSUER},
    "registration at another server": {"registration_endpoint": "https://other.example/r", **NO_ISSUER},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_metadata_ends_before_the_redirect(
    crm: Upstream, ada: Any, site: LoginServer, name: str
) -> None:
    members = WRONG[name]
    site.metadata = {
        key: value.format(origin=site.origin) if isinstance(value, str) else value
        for key, value in members.items()
    }
    assert browser_of(ada).post(f"/connections/{crm.pk}/connect/").status_code == 400
    assert UpstreamClient.objects.count() == 0


def test_issuer_that_cannot_be_stored_is_refused(crm: Upstream, ada: Any, site: LoginServer) -> None:
    site.resource = {"authorization_servers": [f"{site.origin}/{'x' * 600}"]}
    assert browser_of(ada).post(f"/connections/{crm.pk}/connect/").status_code == 400


@pytest.mark.parametrize("resource", ["https://other.example/mcp", "{origin}/mcp/other", "{origin}/mc", 7])
def test_description_of_another_resource_is_refused(
    crm: Upstream, ada: Any, site: LoginServer, resource: Any
) -> None:
    said = resource.format(origin=site.origin) if isinstance(resource, str) else resource
    site.resource = {"resource": said}
    assert browser_of(ada).post(f"/connections/{crm.pk}/connect/").status_code == 400


@pytest.mark.parametrize(
    ("resource", "is_covered"),
    [
        ("https://a.example", True),
        ("https://a.example/", True),
        ("https://A.example:443/x", True),
        ("https://a.example/x/mcp", True),
        ("https://a.example/x/mc", False),
        ("https://a.example/x/mcp/y", False),
        ("http://a.example/x/mcp", False),
        ("https://a.example.evil/x/mcp", False),
    ],
)
def test_resource_covers_its_own_paths_only(resource: str, is_covered: bool) -> None:
    assert covers(resource, "https://a.example/x/mcp") is is_covered


def test_private_networks_are_not_reached_for_a_public_server(site: LoginServer) -> None:
    public = "https://mcp.example.com/mcp"
    assert policy_for("https://10.1.2.3/token", public).allow == frozenset()
    assert policy_for("https://10.1.2.3/token", public, ["https://10.1.2.3"]).allow
    assert policy_for("https://mcp.example.com/token", public).allow
    assert policy_for(f"{site.origin}/token", site.url).allow


def test_challenge_parameters_are_read_in_every_spelling() -> None:
    header = 'Basic realm="x, y", Bearer Resource_Metadata="https://a/b\\"c", scope = "a b", error=invalid'
    found = parameters_of(header)
    assert found["resource_metadata"] == 'https://a/b"c'
    assert (found["scope"], found["error"]) == ("a b", "invalid")


# The response.


def test_state_is_valid_once(crm: Upstream, ada: Any, site: LoginServer) -> None:
    browser = browser_of(ada)
    asked = begin(browser, crm)
    response = {"state": asked["state"], "code": site.code("ada"), "iss": site.origin}
    assert back(browser, crm, **response).status_code == 302
    again = back(browser, crm, **response)
    assert (again.status_code, again.context["reason"]) == (400, login.UNKNOWN)
    assert len(site.forms_at("/token")) == 1


@pytest.mark.requirement("INT-73")
def test_response_in_another_browser_is_refused(crm: Upstream, ada: Any, site: LoginServer) -> None:
    asked = begin(browser_of(ada), crm)
    answer = back(browser_of(ada), crm, state=asked["state"], code=site.code("mallory"), iss=site.origin)
    assert answer.context["reason"] == login.UNKNOWN
    assert (site.forms, UserConnection.objects.count()) == ([], 0)


@pytest.mark.requirement("INT-73")
def test_response_for_another_user_is_refused(crm: Upstream, ada: Any, bob: Any, site: LoginServer) -> None:
    browser = browser_of(ada)
    asked = begin(browser, crm)
    pending = browser.session[login.PENDING]
    browser.force_login(bob)
    session = browser.session
    session[login.PENDING] = pending
    session.save()
    answer = back(browser, crm, state=asked["state"], code=site.code("ada"), iss=site.origin)
    assert answer.context["reason"] == login.UNKNOWN
    assert site.forms == []


def test_response_at_the_address_of_another_server_is_refused(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    other = storing.save_upstream(actor=None, name="other", url=f"{site.origin}/x", user_connections=True)
    browser = browser_of(ada)
    asked = begin(browser, crm)
    answer = back(browser, other, state=asked["state"], code=site.code("ada"), iss=site.origin)
    assert answer.context["reason"] == login.UNKNOWN
    assert site.forms == []


@pytest.mark.requirement("INT-73")
@pytest.mark.parametrize("issuer", ["https://evil.example", "{origin}/", "", None])
@pytest.mark.parametrize("error", [True, False])
def test_response_of_another_issuer_is_refused(
    crm: Upstream, ada: Any, site: LoginServer, issuer: str | None, error: bool
) -> None:
    browser = browser_of(ada)
    asked = begin(browser, crm)
    response = {"state": asked["state"], **({"error": "access_denied"} if error else {"code": "code-ada"})}
    if issuer is not None:
        response["iss"] = issuer.format(origin=site.origin)
    assert back(browser, crm, **response).context["reason"] == login.MIXED_UP
    assert site.forms == []


def test_response_without_issuer_is_accepted_where_none_is_announced(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    site.metadata = {"authorization_response_iss_parameter_supported": None}
    browser = browser_of(ada)
    asked = begin(browser, crm)
    assert back(browser, crm, state=asked["state"], code=site.code("ada")).status_code == 302


@pytest.mark.requirement("INT-73")
@pytest.mark.parametrize("announces", [True, False])
@pytest.mark.parametrize("names_issuer", [True, False])
def test_server_that_names_the_login_page_of_another_gets_no_code(
    crm: Upstream, ada: Any, site: LoginServer, announces: bool, names_issuer: bool
) -> None:
    """The server is hostile. The other one is good, and may or may not name itself in its responses."""
    with login_server() as good:
        login_page = f"{good.origin}/authorize"
        site.metadata = {
            "authorization_endpoint": login_page,
            "authorization_response_iss_parameter_supported": announces or None,
        }
        browser = browser_of(ada)
        page = browser.post(f"/connections/{crm.pk}/connect/")
        assert page.status_code == (200 if announces else 400)
        if announces:
            assert page.context["url"].startswith(login_page)
            asked = parse_qs(urlsplit(page.context["url"]).query)
            issuer = {"iss": good.origin} if names_issuer else {}
            answer = back(browser, crm, state=asked["state"][0], code=good.code("ada"), **issuer)
            assert answer.context["reason"] == login.MIXED_UP
        assert (site.forms, good.forms, UserConnection.objects.count()) == ([], [], 0)


def test_login_page_of_an_entered_client_may_have_another_origin(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    secret = {"client_id": "ours", "client_secret": "s3cret-of-the-client"}
    credentials.save_credential(
        actor=None,
        name="app",
        kind="oauth_client",
        origins=[site.origin, "https://other.example"],
        secret=secret,
    )
    storing.save_upstream(actor=None, upstream=crm, oauth_client="app")
    site.metadata = {"authorization_endpoint": "https://other.example/authorize", **NO_ISSUER}
    assert begin(browser_of(ada), crm)["client_id"] == "ours"


def test_late_response_is_refused(
    crm: Upstream, ada: Any, site: LoginServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "PENDING_SECONDS", -1.0)
    browser = browser_of(ada)
    asked = begin(browser, crm)
    answer = back(browser, crm, state=asked["state"], code=site.code("ada"), iss=site.origin)
    assert answer.context["reason"] == login.UNKNOWN


def test_repeated_parameters_are_not_read(crm: Upstream, ada: Any, site: LoginServer) -> None:
    browser = browser_of(ada)
    asked = begin(browser, crm)
    query = urlencode([("state", asked["state"]), ("code", "a"), ("code", "b"), ("iss", site.origin)])
    assert browser.get(f"/connections/{crm.pk}/callback?{query}").status_code == 400
    assert site.forms == []


def test_verifier_and_resource_are_sent_with_the_code(crm: Upstream, ada: Any, site: LoginServer) -> None:
    connect(ada, crm, site)
    (form,) = site.forms_at("/token")
    assert form["resource"] == site.url
    assert len(form["code_verifier"]) >= 43
    assert form["redirect_uri"] == f"{HERE}/connections/{crm.pk}/callback"


@pytest.mark.parametrize(
    "answer",
    [
        (400, {"error": "invalid_grant"}),
        (200, {"access_token": "a" * 30, "token_type": "DPoP"}),
        (200, {"token_type": "Bearer"}),
        (200, {"access_token": "with a blank", "token_type": "Bearer"}),
        (200, ["a"]),
        (302, {}),
    ],
)
def test_unusable_token_answer_connects_nothing(
    crm: Upstream, ada: Any, site: LoginServer, answer: tuple[int, Any]
) -> None:
    site.answers["/token"] = answer
    browser = browser_of(ada)
    asked = begin(browser, crm)
    assert back(browser, crm, state=asked["state"], code="x", iss=site.origin).status_code == 400
    assert UserConnection.objects.count() == 0


def test_hostile_scope_of_a_token_is_stored_as_words(crm: Upstream, ada: Any, site: LoginServer) -> None:
    answer = {
        "access_token": "a" * 30,
        "token_type": "bearer",
        "scope": 'read \x00 <b>x</b> "y" ' + "z" * 3_000,
    }
    site.answers["/token"] = (200, answer)
    assert connect(ada, crm, site).scope == "read <b>x</b>"


@pytest.mark.parametrize("stated", ["nan", "-nan", "inf", -1, [], True, 2**60])
def test_hostile_lifetime_of_a_token_is_limited(
    crm: Upstream, ada: Any, site: LoginServer, stated: Any
) -> None:
    answer = {"access_token": "a" * 30, "token_type": "bearer", "expires_in": stated}
    site.answers["/token"] = (200, answer)
    expires = connect(ada, crm, site).expires_at
    assert expires is not None
    assert abs(expires.timestamp() - clock.timestamp()) < 31 * 86_400


def test_user_begins_one_login_at_a_time(crm: Upstream, ada: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_values, "acquire", lambda name, *_: not name.startswith("user-connecting/"))
    page = browser_of(ada).post(f"/connections/{crm.pk}/connect/")
    assert page.status_code == 400
    assert UpstreamClient.objects.count() == 0


def test_unknown_client_is_registered_again(crm: Upstream, ada: Any, site: LoginServer) -> None:
    site.answers["/token"] = (401, {"error": "invalid_client"})
    browser = browser_of(ada)
    asked = begin(browser, crm)
    back(browser, crm, state=asked["state"], code="x", iss=site.origin)
    assert begin(browser, crm)["client_id"] == "client-2"


def test_registration_is_repeated_after_the_token_endpoint_moved(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    connect(ada, crm, site)
    site.metadata = {"token_endpoint": f"{site.origin}/new/token"}
    assert begin(browser_of(ada), crm)["client_id"] == "client-2"
    assert UpstreamClient.objects.latest("pk").token_endpoint == f"{site.origin}/new/token"


# Who may connect.


def test_connecting_and_disconnecting_need_a_form_of_this_site(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    row = connect(ada, crm, site)
    browser = browser_of(ada, enforce_csrf_checks=True)
    for path in ("connect", "end"):
        assert browser.post(f"/connections/{crm.pk}/{path}/").status_code == 403
        assert browser.get(f"/connections/{crm.pk}/{path}/").status_code == 405
    assert UserConnection.objects.filter(pk=row.pk).exists()


def test_visitor_without_login_is_sent_to_the_login_page(crm: Upstream) -> None:
    for path in ("", f"{crm.pk}/callback?state=x"):
        answer = Browser().get(f"/connections/{path}")
        assert answer.status_code == 302
        assert "login" in answer["Location"]


def test_user_without_an_entry_of_the_server_cannot_connect(
    crm: Upstream, ada: Any, site: LoginServer, django_user_model: Any
) -> None:
    carl = browser_of(django_user_model.objects.create_user("carl"))
    assert carl.post(f"/connections/{crm.pk}/connect/").status_code == 404
    connect(ada, crm, site)
    publish(crm, ada)
    assert carl.post(f"/connections/{crm.pk}/connect/").status_code == 200


def test_users_see_the_origin_of_a_server_only(crm: Upstream, ada: Any, site: LoginServer) -> None:
    Upstream.objects.filter(pk=crm.pk).update(url=f"{site.url}?key=s3cret-in-the-address")
    browser = browser_of(ada)
    pages = browser.get("/connections/"), browser.post(f"/connections/{crm.pk}/connect/")
    for page in pages:
        assert page.status_code == 200
        assert site.origin in page.content.decode()
        assert "s3cret" not in page.content.decode()


def test_user_cannot_end_the_connection_of_another(
    crm: Upstream, ada: Any, bob: Any, site: LoginServer
) -> None:
    connect(ada, crm, site)
    browser_of(bob).post(f"/connections/{crm.pk}/end/")
    assert UserConnection.objects.get().user == ada


# Use.


@pytest.mark.requirement("INT-62")
def test_users_never_share_an_account(crm: Upstream, ada: Any, bob: Any, site: LoginServer) -> None:
    storing.save_upstream(actor=None, upstream=crm, isolation="shared")
    connect(ada, crm, site)
    connect(bob, crm, site)
    publish(crm, ada)
    assert [whoami(user) for user in (ada, bob, ada)] == ["ada", "bob", "ada"]


def test_call_uses_the_new_account_after_another_login(crm: Upstream, ada: Any, site: LoginServer) -> None:
    connect(ada, crm, site)
    publish(crm, ada)
    assert whoami(ada) == "ada"
    connect(ada, crm, site, "work-account")
    assert whoami(ada) == "work-account"


def test_caller_without_a_user_has_no_account(crm: Upstream, ada: Any, site: LoginServer) -> None:
    connect(ada, crm, site)
    publish(crm, ada)
    assert "not logged in as a user" in whoami(None)


def test_test_bench_does_not_use_the_account_of_another_user(
    crm: Upstream, ada: Any, bob: Any, site: LoginServer
) -> None:
    connect(ada, crm, site)
    principal = Principal(bench_key(bob.pk, ada.pk), "ada", frozenset(), user_id=ada.pk)
    context = SimpleNamespace(principal=principal)
    with pytest.raises(ToolError, match="only that user"):
        asyncio.run(with_account(known.read(crm), context))
    own = Principal(bench_key(ada.pk, ada.pk), "ada", frozenset(), user_id=ada.pk)
    found = asyncio.run(with_account(known.read(crm), SimpleNamespace(principal=own)))
    assert found.server.account is not None


def test_tokens_of_another_user_or_server_are_not_used(
    crm: Upstream, ada: Any, bob: Any, site: LoginServer
) -> None:
    connect(ada, crm, site)
    publish(crm, ada)
    row = connect(bob, crm, site)
    row.sealed = UserConnection.objects.get(user=ada).sealed
    row.save()
    use.drop(crm.pk, bob.pk)
    assert "connection" in whoami(bob)
    assert site.accounts.keys() == {"access-token-ada-1", "access-token-bob-2"}


@pytest.mark.parametrize("is_expired", [False, True])
def test_process_without_the_key_keeps_the_tokens(
    crm: Upstream, ada: Any, site: LoginServer, settings: Any, is_expired: bool
) -> None:
    row = connect(ada, crm, site)
    publish(crm, ada)
    if is_expired:
        expire(row)
    before = settings.MCP
    settings.MCP = {**before, "STATE_KEYS": ("another-key-of-another-process-" * 2,)}
    use.drop(crm.pk, ada.pk)
    assert "cannot use the connection" in whoami(ada)
    assert_shown_as_unreadable(ada, row)
    settings.MCP = before
    use.drop(crm.pk, ada.pk)
    assert whoami(ada) == "ada"


def assert_shown_as_unreadable(ada: Any, row: UserConnection) -> None:
    """Check that every page and the API name the lost key and the remedy."""
    browser = browser_of(ada)
    (shown,) = browser.get("/connections/").context["rows"]
    (answer,) = browser.get("/api/connections/").json()
    assert (shown["state"], answer["state"]) == ("attention", "attention")
    admin = browser.get(f"/admin/mcp_app/userconnection/{row.pk}/change/").content.decode()
    (found,) = doctor_check.with_accounts(None)
    assert "cannot be decrypted" in found.text
    for text in (shown["problem"], answer["problem"], admin):
        assert "its key has changed. The user can connect again" in text
    assert "needs attention" in browser.get("/admin/mcp_app/userconnection/").content.decode()


def test_client_whose_secret_cannot_be_read_is_registered_again(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    method = "client_secret_basic"
    site.metadata = {"token_endpoint_auth_methods_supported": [method]}
    made = {"client_id": "c", "client_secret": "s3cret-of-the-client", "token_endpoint_auth_method": method}
    site.answers["/register"] = (201, made)
    row = connect(ada, crm, site)
    publish(crm, ada)
    expire(row)
    UpstreamClient.objects.update(sealed="v1.00000000.unreadable")
    assert "cannot be read" in whoami(ada)
    row.refresh_from_db()
    assert (row.problem, bool(row.sealed)) == ("", True)
    connect(ada, crm, site)
    assert whoami(ada) == "ada"
    assert UpstreamClient.objects.count() == 2


def expire(row: UserConnection) -> None:
    """Let the access token of a connection expire."""
    row.refresh_from_db()
    row = UserConnection.objects.select_related("client").get(pk=row.pk)
    tokens = opened(row)
    assert tokens is not None
    use.store(row, replace(tokens, expires_at=clock.timestamp() - 1))
    row.save()
    use.drop(row.upstream_id, row.user_id)


@pytest.mark.requirement("INT-72")
def test_expired_token_is_renewed_once_for_many_calls(crm: Upstream, ada: Any, site: LoginServer) -> None:
    row = connect(ada, crm, site)
    publish(crm, ada)
    expire(row)
    account = asyncio.run(_many(crm.pk, ada.pk, crm.url))
    assert account == {"access-token-ada-2"}
    form = site.forms_at("/token")[-1]
    assert (form["grant_type"], form["resource"]) == ("refresh_token", site.url)
    assert len(site.forms_at("/token")) == 2


async def _many(server: int, user: int, url: str) -> set[str]:
    _, account = await use.find(server, user)
    assert account is not None
    found = await asyncio.gather(*(use.secrets_for(server, account, url) for _ in range(10)))
    return {own.headers[0][1].removeprefix("Bearer ") for own in found}


def test_token_is_not_sent_to_another_address(crm: Upstream, ada: Any, site: LoginServer) -> None:
    connect(ada, crm, site)
    with pytest.raises(use.AccountRefused):
        asyncio.run(_many(crm.pk, ada.pk, "http://127.0.0.2:1/mcp"))


def test_renewal_waits_for_that_of_another_process(crm: Upstream, ada: Any, site: LoginServer) -> None:
    row = connect(ada, crm, site)
    expire(row)
    UserConnection.objects.update(renewing_until=clock.now(0.5))
    assert asyncio.run(_many(crm.pk, ada.pk, crm.url)) == {"access-token-ada-2"}
    assert len(site.forms_at("/token")) == 2


def test_refused_renewal_needs_attention_and_is_no_outage(crm: Upstream, ada: Any, site: LoginServer) -> None:
    row = connect(ada, crm, site)
    publish(crm, ada)
    site.refresh.clear()
    expire(row)
    assert "invalid_grant" in whoami(ada)
    row.refresh_from_db()
    assert (row.sealed, row.can_renew) == ("", False)
    assert health.of(crm.pk).state != "refused"
    page = browser_of(ada).get("/connections/")
    assert page.context["rows"][0]["state"] == "attention"
    assert AuditEvent.objects.filter(action="upstream.connection_failed").count() == 1
    before = len(site.forms)
    assert "cannot use the connection" in whoami(ada)
    assert len(site.forms) == before


def test_client_that_is_unknown_at_a_renewal_is_registered_again(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    row = connect(ada, crm, site)
    publish(crm, ada)
    expire(row)
    site.answers["/token"] = (401, {"error": "invalid_client"})
    assert "invalid_client" in whoami(ada)
    site.answers.clear()
    assert begin(browser_of(ada), crm)["client_id"] == "client-2"
    connect(ada, crm, site)
    assert whoami(ada) == "ada"


def test_token_that_a_refusal_repeats_is_hidden(crm: Upstream, ada: Any, site: LoginServer) -> None:
    connect(ada, crm, site)
    publish(crm, ada)
    (token,) = site.accounts
    site.answers["/mcp"] = (400, {"error": {"code": -32600, "message": f"Unknown header Bearer {token}."}})
    assert (text := whoami(ada)).count("[hidden]") == 1
    assert token not in text


def test_unavailable_authorization_server_keeps_the_connection(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    row = connect(ada, crm, site)
    publish(crm, ada)
    expire(row)
    site.answers["/token"] = (503, {"error": "invalid_grant"})
    assert "could not be renewed" in whoami(ada)
    site.answers.clear()
    assert whoami(ada) == "ada"


def test_refused_token_is_renewed_during_the_call(crm: Upstream, ada: Any, site: LoginServer) -> None:
    row = connect(ada, crm, site)
    publish(crm, ada)
    site.accounts.clear()
    UserConnection.objects.filter(pk=row.pk).update(renewed_at=clock.now(-60))
    use.drop(crm.pk, ada.pk)
    assert whoami(ada) == "ada"
    assert len(site.forms_at("/token")) == 2


def test_server_that_refuses_new_tokens_causes_no_more_renewals(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    connect(ada, crm, site)
    publish(crm, ada)
    site.accounts.clear()
    assert "refused the credential" in whoami(ada)
    assert len(site.forms_at("/token")) == 1


@pytest.mark.requirement("INT-72")
def test_disconnected_account_is_revoked_and_not_used(crm: Upstream, ada: Any, site: LoginServer) -> None:
    connect(ada, crm, site)
    publish(crm, ada)
    answer = browser_of(ada).post(f"/connections/{crm.pk}/end/", follow=True)
    assert answer.context["done"]
    assert site.forms_at("/revoke") == [
        {"token": "refresh-token-ada-1", "token_type_hint": "refresh_token", "client_id": "client-1"}
    ]
    assert "needs a connection" in whoami(ada)


def test_connection_ends_without_the_authorization_server(crm: Upstream, ada: Any, site: LoginServer) -> None:
    connect(ada, crm, site)
    site.answers["/revoke"] = (503, {})
    browser_of(ada).post(f"/connections/{crm.pk}/end/")
    assert UserConnection.objects.count() == 0


def test_inactive_user_has_no_account(crm: Upstream, ada: Any, bob: Any, site: LoginServer) -> None:
    connect(bob, crm, site)
    bob.is_active = False
    bob.save()
    use.drop(crm.pk, bob.pk)
    assert asyncio.run(use.find(crm.pk, bob.pk))[1] is None


@pytest.mark.requirement("INT-72")
def test_secrets_appear_in_no_page_row_or_audit_event(crm: Upstream, ada: Any, site: LoginServer) -> None:
    row = connect(ada, crm, site)
    publish(crm, ada)
    shown = browser_of(ada).get("/connections/").content.decode()
    shown += "".join(str(values) for values in UserConnection.objects.values())
    shown += "".join(str(values) for values in AuditEvent.objects.values())
    assert row.pk
    assert "access-token-ada" not in shown
    assert "refresh-token-ada" not in shown
    assert "code-ada" not in shown


def test_lists_are_read_with_the_account_of_the_administrator(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    for actor in (None, ada):
        with pytest.raises(UpstreamFault, match="needs a connection"):
            refreshing.refresh(upstream=crm, actor=actor)
    assert refreshing.refresh_due() == {}
    assert health.of(crm.pk).state == "unknown"
    connect(ada, crm, site)
    assert refreshing.refresh(upstream=crm, actor=ada).items["tools"] == 1


@pytest.mark.parametrize("is_oauth", [True, False])
def test_users_who_are_not_staff_log_in(django_user_model: Any, settings: Any, is_oauth: bool) -> None:
    settings.MCP = {**settings.MCP, "OAUTH": is_oauth}
    eve = django_user_model.objects.create_user("eve", password="a passphrase")
    browser = Browser()
    login = browser.get("/connections/")["Location"]
    assert login == "/accounts/login/?next=/connections/"
    form = {"username": eve.get_username(), "password": "a passphrase", "next": "/connections/"}
    assert browser.post(login, form)["Location"] == "/connections/"
    assert not eve.is_staff
    assert "My connections" in browser.get("/connections/").content.decode()


@modify_settings(MIDDLEWARE={"append": "django.contrib.auth.middleware.LoginRequiredMiddleware"})
@pytest.mark.parametrize("is_oauth", [True, False])
@pytest.mark.django_db
def test_login_page_is_open_in_a_project_that_requires_logins(settings: Any, is_oauth: bool) -> None:
    settings.MCP = {**settings.MCP, "OAUTH": is_oauth}
    assert Browser().get("/accounts/login/").status_code == 200


@override_settings(LOGIN_URL="/login-of-the-project/")
def test_login_page_of_the_project_is_used(crm: Upstream) -> None:
    assert Browser().get("/connections/")["Location"].startswith("/login-of-the-project/")
