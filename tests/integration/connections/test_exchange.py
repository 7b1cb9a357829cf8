"""Token exchange: the token of each caller becomes one of the server, and nothing else leaves (RFC 8693)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command

from mcp_app.auth.identity_provider import caller_tokens
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.sources.upstream import known
from mcp_app.catalogue.sources.upstream.accounts import with_account
from mcp_app.catalogue.upstreams import storing
from mcp_app.credentials import services as credentials
from mcp_app.credentials import tokens
from mcp_app.doctor import upstreams as doctor_check
from mcp_app.models import Credential, Upstream
from mcp_app.observability.correlation import Correlation, correlated
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.upstreams import connection, sessions
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.server import UpstreamServer
from tests.servers.login_server import LoginServer, login_server
from tests.servers.web_api import web_api
from tests.unit.egress.sites import response

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = {"client_id": "ours", "client_secret": "s3cret-of-the-client"}
ACCESS = "urn:ietf:params:oauth:token-type:access_token"
ISSUED = {"access_token": "issued-token-of-the-server", "token_type": "Bearer", "issued_token_type": ACCESS}


@pytest.fixture(autouse=True)
def fresh_tokens(fresh: None) -> Iterator[None]:
    yield
    tokens._kept.clear()
    credentials._errors_at.clear()


@pytest.fixture
def site() -> Iterator[LoginServer]:
    with login_server() as found:
        found.exchange = lambda form: (200, {**ISSUED, "access_token": issued(form["subject_token"])})
        yield found


def issued(subject: str) -> str:
    return f"issued-for-{subject.partition('.')[2]}"


def stored(site: LoginServer, **values: Any) -> Upstream:
    usual = {"origins": [site.origin], "token_url": f"{site.origin}/token", "secret": SECRET}
    credentials.save_credential(actor=None, name="sts", kind="token_exchange", **{**usual, **values})
    return storing.save_upstream(actor=None, name="crm", url=site.url, token_exchange="sts")


@pytest.fixture
def crm(site: LoginServer) -> Upstream:
    return stored(site)


def principal(name: str, user: int = 7, lasts: float = 300.0, **values: Any) -> Principal:
    """Return a caller who logged in with the token ``ey.<name>``."""
    key = f"user:{user}/client:external-abc"
    sealed = caller_tokens.sealed(f"ey.{name}", key, time.time() + lasts)
    return Principal(key, name, frozenset(), user_id=user, caller_token=sealed, **values)


def server_of(row: Upstream, caller: Principal) -> UpstreamServer:
    """Return the server for the calls of a caller."""
    return asyncio.run(with_account(known.read(row), SimpleNamespace(principal=caller))).server


async def secrets_of(server: UpstreamServer) -> str:
    own = await connection.secrets_of(server, time.monotonic() + 20)
    ((name, value),) = own.headers
    assert name == "Authorization"
    return value.removeprefix("Bearer ")


def token_of(row: Upstream, caller: Principal) -> str:
    return asyncio.run(secrets_of(server_of(row, caller)))


def test_request_has_the_subject_and_the_resource(crm: Upstream, site: LoginServer) -> None:
    assert token_of(crm, principal("ada")) == "issued-for-ada"
    assert site.forms_at("/token") == [
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": "ey.ada",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "requested_token_type": ACCESS,
            "resource": site.url,
        }
    ]
    assert site.authorizations[-1].startswith("Basic ")


def test_token_of_the_issuer_is_an_access_token(crm: Upstream, site: LoginServer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_ISSUER": f"{site.origin}/realm", "AUTH": "external"}
    token_of(crm, principal("ada"))
    assert site.forms_at("/token")[0]["subject_token_type"] == ACCESS


def test_settings_of_the_credential_replace_the_resource(site: LoginServer) -> None:
    crm = stored(site, audience="crm", scopes="read write")
    token_of(crm, principal("ada"))
    (form,) = site.forms_at("/token")
    assert (form["audience"], form["scope"], "resource" in form) == ("crm", "read write", False)


def test_query_of_a_server_is_not_its_resource(crm: Upstream, site: LoginServer) -> None:
    Upstream.objects.filter(pk=crm.pk).update(url=f"{site.url}?key=s3cret-in-the-address")
    crm.refresh_from_db()
    token_of(crm, principal("ada"))
    assert site.forms_at("/token")[0]["resource"] == site.url


@pytest.mark.requirement("INT-72")
def test_token_is_requested_once_for_many_calls(crm: Upstream, site: LoginServer) -> None:
    async def many() -> set[str]:
        return set(await asyncio.gather(*(secrets_of(server) for _ in range(10))))

    server = server_of(crm, principal("ada"))
    assert asyncio.run(many()) == {"issued-for-ada"}
    tokens._kept.clear()  # Another process finds the token in Redis, if there is one.
    assert len(site.forms_at("/token")) == 1


@pytest.mark.requirement("INT-72")
def test_callers_at_the_same_time_never_get_the_token_of_another(crm: Upstream, site: LoginServer) -> None:
    callers = [principal(f"user-{number}", number) for number in range(1, 25)]
    servers = [server_of(crm, caller) for caller in callers]

    async def many() -> list[str]:
        return await asyncio.gather(*(secrets_of(server) for server in [*servers, *reversed(servers)]))

    wanted = [f"issued-for-{caller.name}" for caller in callers]
    assert asyncio.run(many()) == [*wanted, *reversed(wanted)]
    assert len({server.key for server in servers}) == len(servers)


def test_two_tokens_of_one_user_are_exchanged_separately(crm: Upstream, site: LoginServer) -> None:
    narrow, wide = principal("narrow"), principal("wide")
    assert [token_of(crm, each) for each in (narrow, wide, narrow)] == [
        "issued-for-narrow",
        "issued-for-wide",
        "issued-for-narrow",
    ]
    # A session at the server outlasts the tokens of its user.
    assert server_of(crm, narrow).key == server_of(crm, wide).key


async def ended_by_idle_time(caller: Caller) -> None:
    ((name, kept),) = sessions._kept.items()
    kept.used_at -= sessions.IDLE_SECONDS
    await asyncio.to_thread(sessions.shared_values.drop, name)
    await sessions._end_if_idle(name, kept.peer, kept.server)


async def ended_with_its_client(caller: Caller) -> None:
    sessions.client_ended("1")
    await asyncio.gather(*sessions._ending)


@pytest.mark.requirement("INT-62")
@pytest.mark.parametrize("ended", [ended_by_idle_time, ended_with_its_client])
def test_session_is_ended_with_the_token_of_its_last_caller(
    crm: Upstream, site: LoginServer, ended: Callable[[Caller], Awaitable[None]]
) -> None:
    Upstream.objects.filter(pk=crm.pk).update(era="legacy")
    crm.refresh_from_db()
    caller = Caller(Caller.key_of("1"))
    first, last = (server_of(crm, principal(name)) for name in ("first", "last"))
    site.accounts = {"issued-for-first": "ada", "issued-for-last": "ada"}
    site.session = "s-1"

    async def run() -> None:
        for server in (first, last):
            await sessions.opened(server, caller)
        await ended(caller)

    asyncio.run(run())
    assert [heard.header("authorization") for heard in site.api.requests if "DELETE" in heard.line] == [
        "Bearer issued-for-last"
    ]


ANSWERS: dict[str, tuple[int, Any, str]] = {
    "no issued_token_type": (200, {**ISSUED, "issued_token_type": None}, "issued_token_type"),
    "refresh token": (200, {**ISSUED, "issued_token_type": ACCESS.replace("access", "refresh")}, "type"),
    "id token": (200, {**ISSUED, "issued_token_type": ACCESS.replace("access", "id")}, "issued_token_type"),
    "no token_type": (200, {**ISSUED, "token_type": None}, "token_type"),
    "N_A": (200, {**ISSUED, "token_type": "N_A"}, "not a bearer token"),
    "DPoP": (200, {**ISSUED, "token_type": "DPoP"}, "not a bearer token"),
    "the caller's own token": (200, {**ISSUED, "access_token": "ey.ada"}, "caller's own token"),
    "line break": (200, {**ISSUED, "access_token": "a\r\nX-Evil: 1"}, "not a bearer token"),
    "no token": (200, {"issued_token_type": ACCESS}, "200"),
    "list": (200, ["ey.ada"], "200"),
    "refused": (400, {"error": "invalid_grant", "error_description": "ey.ada"}, "Log in at the identity"),
    "token as the error": (400, {"error": "ey.ada"}, "400."),
    "object as the error": (400, {"error": {"a": "ey.ada"}}, "400."),
    "list as the error": (400, {"error": ["ey.ada"]}, "400."),
    "unknown client": (401, {"error": "invalid_client"}, "invalid_client"),
    "fault": (503, {}, "503"),
    "redirect": (302, {}, "302"),
    "huge": (200, {**ISSUED, "padding": "x" * 100_000}, "larger than"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_unusable_answer_gets_no_token_and_repeats_no_secret(
    crm: Upstream, site: LoginServer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, answer, expected = ANSWERS[name]
    if isinstance(answer, dict):
        answer = {member: value for member, value in answer.items() if value is not None}
    site.exchange = lambda _: (status, answer)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(UpstreamFault) as error:
        token_of(crm, principal("ada"))
    text = str(error.value)
    assert (error.value.kind, error.value.sent) == ("login", False)
    assert expected in text
    shown = f"{text} {caplog.text} {list(Credential.objects.values())}"
    assert not [each for each in ("ey.ada", ISSUED["access_token"], *SECRET.values()) if each in shown]


def test_redirect_of_the_token_endpoint_is_not_followed(crm: Upstream, site: LoginServer) -> None:
    with web_api() as other:
        location = f"Location: {other.origin}/token"
        usual = site.answer
        site.api.answer = lambda heard: (
            response(b"{}", location, status="307 Temporary Redirect")
            if heard.line.startswith("POST /token")
            else usual(heard)
        )
        with pytest.raises(UpstreamFault):
            token_of(crm, principal("ada"))
        assert other.requests == []


def test_token_is_sent_to_the_origins_of_the_credential_only(crm: Upstream, site: LoginServer) -> None:
    Upstream.objects.filter(pk=crm.pk).update(url="http://127.0.0.2:1/mcp")
    crm.refresh_from_db()
    with pytest.raises(UpstreamFault, match="not bound"):
        token_of(crm, principal("ada"))
    assert site.forms == []


def test_endpoint_of_the_server_s_metadata_gets_no_token(crm: Upstream, site: LoginServer) -> None:
    site.metadata = {"token_endpoint": f"{site.origin}/evil"}
    token_of(crm, principal("ada"))
    assert {path for path, _ in site.forms} == {"/token"}
    assert not any("evil" in heard.line or "well-known" in heard.line for heard in site.api.requests)


def test_expired_login_is_not_sent(crm: Upstream, site: LoginServer) -> None:
    with pytest.raises(UpstreamFault, match=r"login of the caller has expired\. Log in"):
        token_of(crm, principal("ada", lasts=-1.0))
    assert site.forms == []


def test_refused_token_is_exchanged_once_more(crm: Upstream, site: LoginServer) -> None:
    server, used = server_of(crm, principal("ada")), []

    async def attempt(own: Any) -> None:
        used.append(own)
        raise UpstreamFault(Kind.LOGIN, "refused the credential.", status=401)

    with pytest.raises(UpstreamFault):
        asyncio.run(connection.with_secrets(server, time.monotonic() + 20, attempt))
    assert (len(used), len(site.forms_at("/token"))) == (2, 2)


def test_caller_without_a_login_is_refused_with_the_remedy(crm: Upstream, site: LoginServer) -> None:
    anybody = Principal("loopback", "local", frozenset())
    with_key = Principal("user:7/key:1", "ada", frozenset(), user_id=7, api_key_id=1)
    of_another = Principal(
        "user:8/client:external-abc",
        "bob",
        frozenset(),
        user_id=8,
        caller_token=principal("ada").caller_token,
    )
    for caller, expected in (
        (anybody, "not logged in as a user"),
        (with_key, "instead of an API key"),
    ):
        with pytest.raises(ToolError, match=expected):
            server_of(crm, caller)
    with pytest.raises(UpstreamFault, match="cannot be read"):
        token_of(crm, of_another)
    assert site.forms == []


def test_background_call_without_a_stored_login_is_refused(crm: Upstream) -> None:
    caller = principal("ada")
    in_worker = Principal(caller.key, "ada", frozenset(), user_id=7)
    with (
        correlated(Correlation(call="7b1d2f5e-0000-4000-8000-000000000000", principal=caller.key)),
        pytest.raises(ToolError, match=r"not stored any more\. Log in again"),
    ):
        server_of(crm, in_worker)


def test_principal_does_not_show_its_token() -> None:
    caller = principal("ada")
    assert "ey." not in caller.caller_token
    assert caller.caller_token not in repr(caller)


def test_exchange_is_checked_when_the_server_is_saved(site: LoginServer, crm: Upstream) -> None:
    credentials.save_credential(
        actor=None, name="key", kind="bearer", origins=[site.origin], secret={"token": "t"}
    )
    credentials.save_credential(
        actor=None, name="far", kind="token_exchange", origins=["https://other.example"],
        token_url=f"{site.origin}/token", secret=SECRET,
    )  # fmt: skip
    for values, field in (
        ({"token_exchange": "key"}, "token_exchange"),
        ({"token_exchange": "far"}, "token_exchange"),
        ({"user_connections": True}, "token_exchange"),
        ({"credential": "sts"}, "credential"),
    ):
        with pytest.raises(ValidationError) as error:
            storing.save_upstream(actor=None, upstream=crm, **values)
        assert field in error.value.message_dict
    with pytest.raises(ValidationError):
        credentials.delete_credential(credential=Credential.objects.get(name="sts"), actor=None)


def test_requests_of_tools_cannot_use_an_exchange(crm: Upstream, site: LoginServer) -> None:
    with pytest.raises(credentials.CredentialRefused, match="only upstream servers"):
        asyncio.run(credentials.secrets_for("sts", site.url))


def test_doctor_reports_an_exchange_without_logins(crm: Upstream, settings: Any) -> None:
    (found,) = doctor_check.with_accounts(None)
    assert (found.level, "no caller has one" in found.text) == ("warning", True)
    settings.MCP = {**settings.MCP, "AUTH": "external", "OAUTH_ISSUER": "https://login.example"}
    assert [*doctor_check.with_accounts(None)] == []


def test_command_adds_a_server_with_a_token_exchange(crm: Upstream, site: LoginServer) -> None:
    site.accounts["s3cret-of-the-lists"] = "lists"
    credentials.save_credential(
        actor=None,
        name="lists",
        kind="bearer",
        origins=[site.origin],
        secret={"token": "s3cret-of-the-lists"},
    )
    more = ("--credential", "lists", "--token-exchange", "sts", "--era", "legacy")
    call_command("mcp_upstream", "add", "erp", f"{site.origin}/mcp", *more)
    assert Upstream.objects.get(name="erp").token_exchange == "sts"
