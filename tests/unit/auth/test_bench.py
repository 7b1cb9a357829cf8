"""Test bench tokens: issuing, impersonation, expiry, and rejection of forgeries."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core import signing
from django.core.exceptions import PermissionDenied

from mcp_app.auth import authentication, bench
from mcp_app.auth.api_keys import find_principal
from mcp_app.auth.authentication import MAX_CREDENTIAL, Authenticator
from mcp_app.auth.bench import BENCH_PREFIX, find_bench_principal, issue_bench_token
from mcp_app.models import AuditEvent
from mcp_app.observability.redaction import MARK, Redactor
from mcp_app.protocol.errors import Unauthorized

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

Person = Callable[..., Any]


@pytest.fixture
def person(transactional_db: None) -> Person:
    """Make a staff user with permissions: ``person("ada", "try_entries")``."""

    def make(name: str, *codenames: str, **more: Any) -> Any:
        user = get_user_model().objects.create_user(name, password="not used", **{"is_staff": True, **more})
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return user

    return make


def test_token_grants_current_permissions_of_its_owner(person: Person) -> None:
    ada = person("ada", "try_entries", "view_tool")
    token, ends = issue_bench_token(actor=ada)
    principal = find_bench_principal(token)
    assert principal is not None
    assert (principal.key, principal.name, principal.user_id) == (f"user:{ada.pk}/bench", "ada", ada.pk)
    assert (principal.bench, principal.expires_at, principal.api_key_id) == (True, ends, None)
    assert "mcp_app.view_tool" in principal.permissions
    ada.user_permissions.remove(Permission.objects.get(codename="view_tool"))
    again = find_bench_principal(token)
    assert again is not None
    assert "mcp_app.view_tool" not in again.permissions


@pytest.mark.parametrize(
    ("codenames", "more"),
    [
        ((), {}),
        (("try_as_others",), {}),
        (("try_entries",), {"is_staff": False}),
        (("try_entries",), {"is_active": False}),
    ],
    ids=["no permission", "another permission", "not staff", "inactive"],
)
def test_user_without_try_permission_gets_no_token(
    person: Person, codenames: tuple[str, ...], more: dict[str, Any]
) -> None:
    with pytest.raises(PermissionDenied):
        issue_bench_token(actor=person("ada", *codenames, **more))


def test_impersonation_uses_permissions_of_the_other_user_and_is_audited(person: Person) -> None:
    ada = person("ada", "try_entries", "try_as_others")
    bob = person("bob", "view_session", is_staff=False)
    principal = find_bench_principal(issue_bench_token(actor=ada, user=bob)[0])
    assert principal is not None
    assert (principal.key, principal.user_id) == (f"user:{bob.pk}/bench/by:{ada.pk}", bob.pk)
    assert principal.name == "bob (run by ada)"
    assert "mcp_app.view_session" in principal.permissions
    assert "mcp_app.try_entries" not in principal.permissions
    event = AuditEvent.objects.get()
    assert (event.action, event.actor, event.object_key) == ("bench.run_as", ada, "bob")
    assert event.detail["user"] == str(bob.pk)


def test_token_for_own_user_is_not_audited_as_impersonation(person: Person) -> None:
    ada = person("ada", "try_entries")
    issue_bench_token(actor=ada, user=ada)
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize(
    ("actor", "user", "allowed"),
    [
        (("try_entries",), {}, False),
        (("try_entries", "try_as_others"), {"is_active": False}, False),
        (("try_entries", "try_as_others"), {"is_superuser": True}, False),
        (("try_entries", "try_as_others"), {}, True),
    ],
    ids=["no permission", "inactive", "superuser", "allowed"],
)
def test_impersonation_is_limited_to_documented_users(
    person: Person, actor: tuple[str, ...], user: dict[str, Any], *, allowed: bool
) -> None:
    ada, bob = person("ada", *actor), person("bob", **user)
    if allowed:
        assert issue_bench_token(actor=ada, user=bob)
        return
    with pytest.raises(PermissionDenied):
        issue_bench_token(actor=ada, user=bob)
    assert not AuditEvent.objects.exists()


def test_superuser_may_impersonate_another_superuser(person: Person) -> None:
    root, other = person("root", is_superuser=True), person("other", is_superuser=True)
    assert find_bench_principal(issue_bench_token(actor=root, user=other)[0]) is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda ada, bob: ada.user_permissions.clear(),
        lambda ada, bob: ada.user_permissions.remove(Permission.objects.get(codename="try_as_others")),
        lambda ada, bob: type(ada).objects.filter(pk=ada.pk).update(is_active=False),
        lambda ada, bob: type(ada).objects.filter(pk=ada.pk).update(is_staff=False),
        lambda ada, bob: type(ada).objects.filter(pk=bob.pk).update(is_active=False),
        lambda ada, bob: type(ada).objects.filter(pk=bob.pk).update(is_superuser=True),
        lambda ada, bob: (ada.set_password("another"), ada.save()),
        lambda ada, bob: ada.delete(),
        lambda ada, bob: bob.delete(),
    ],
    ids=[
        "try permission removed",
        "impersonation permission removed",
        "actor inactive",
        "not staff",
        "target inactive",
        "target promoted",
        "actor password changed",
        "actor deleted",
        "target deleted",
    ],
)
def test_token_ends_when_its_preconditions_change(person: Person, change: Callable[[Any, Any], Any]) -> None:
    ada, bob = person("ada", "try_entries", "try_as_others"), person("bob")
    token, _ = issue_bench_token(actor=ada, user=bob)
    assert find_bench_principal(token) is not None
    change(ada, bob)
    assert find_bench_principal(token) is None


def test_token_expires_after_15_minutes(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    token, ends = issue_bench_token(actor=person("ada", "try_entries"))
    assert ends == pytest.approx(time.time() + 900, abs=5)
    for early, works in ((1.0, True), (0.0, False), (-1.0, False)):
        monkeypatch.setattr(time, "time", lambda early=early: ends - early)
        assert (find_bench_principal(token) is not None) == works


def _wrapped(signed: str) -> str:
    return BENCH_PREFIX + base64.urlsafe_b64encode(signed.encode()).decode().rstrip("=")


def _unwrapped(token: str) -> str:
    text = token.removeprefix(BENCH_PREFIX)
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


def test_forged_token_is_refused(person: Person) -> None:
    ada = person("ada", "try_entries")
    token, _ = issue_bench_token(actor=ada)
    claims = signing.Signer(salt=bench._SALT).unsign_object(_unwrapped(token))
    signed = _unwrapped(token)
    forged = [
        _wrapped(signing.Signer(salt="another").sign_object(claims)),
        _wrapped(signing.Signer(key="another", salt=bench._SALT).sign_object(claims)),
        _wrapped(signing.dumps(claims, salt=bench._SALT)),
        _wrapped(signed[:-1] + ("A" if signed[-1] != "A" else "B")),
        _wrapped("x" + signed),
        BENCH_PREFIX,
        BENCH_PREFIX + "é",
        BENCH_PREFIX + "!" * 40,
        token[:-4],
    ]
    assert find_bench_principal(token) is not None
    assert [find_bench_principal(each) for each in forged] == [None] * len(forged)


async def test_bench_token_is_valid_at_the_own_server_only(person: Person) -> None:
    ada = await sync_to_async(person)("ada", "try_entries")
    token, _ = await sync_to_async(issue_bench_token)(actor=ada)
    authenticator, given = Authenticator("required"), b"Bearer " + token.encode()
    for _ in range(2):  # The second time from the cache.
        with pytest.raises(Unauthorized):
            await authenticator.authenticate(given, local=False, path="/mcp/toy")
        assert authenticator.known(given, local=False, path="/mcp/toy") is None
        assert (await authenticator.authenticate(given, local=False)).bench


async def test_cached_token_is_refused_at_another_server_without_look_up(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await sync_to_async(person)("ada", "try_entries")
    token, _ = await sync_to_async(issue_bench_token)(actor=ada)
    authenticator, given = Authenticator("required"), b"Bearer " + token.encode()
    found: list[str] = []
    afind = authentication.tokens.afind

    async def counted(token: str) -> Any:
        found.append(token)
        return await afind(token)

    monkeypatch.setattr(authentication.tokens, "afind", counted)
    for path in ["/mcp/toy"] * 5 + ["/mcp"]:
        with suppress(Unauthorized):
            await authenticator.authenticate(given, local=False, path=path)
    assert found == [token]


async def test_endpoint_accepts_caches_and_forgets_bench_token(person: Person) -> None:
    ada = await sync_to_async(person)("ada", "try_entries")
    token, _ = await sync_to_async(issue_bench_token)(actor=ada)
    header = b"Bearer " + token.encode()
    assert len(header) < MAX_CREDENTIAL
    authenticator = Authenticator("required")
    principal = await authenticator.authenticate(header, local=False)
    assert authenticator.known(header, local=False) is principal
    assert authenticator.used == {}
    await sync_to_async(ada.user_permissions.clear)()
    authenticator.forget()
    with pytest.raises(Unauthorized):
        await authenticator.authenticate(header, local=False)


def test_bench_token_is_not_an_api_key(person: Person) -> None:
    assert find_principal(issue_bench_token(actor=person("ada", "try_entries"))[0]) is None


def test_redactor_masks_bench_token(person: Person) -> None:
    token, _ = issue_bench_token(actor=person("ada", "try_entries"))
    redactor = Redactor(())
    for text in (token, f"Bearer {token}", f"https://x/?a={token}"):
        assert MARK in redactor.text(text)
        assert token[20:] not in redactor.text(text)
