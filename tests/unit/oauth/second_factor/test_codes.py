"""Codes are single-use, guessing is limited, secrets are sealed, and every change is audited."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command

from mcp_app.models import AuditEvent
from mcp_app.oauth.second_factor import factors
from mcp_app.oauth.second_factor.gate import has_factor
from tests.unit.oauth.second_factor.app import App
from tests.unit.oauth.second_factor.conftest import CODE, OWN, PASSWORD, SET_UP, Stopped, Visitor

pytestmark = pytest.mark.postgres


def trail() -> list[str]:
    """Return the audit actions about second factors, oldest first."""
    rows = AuditEvent.objects.filter(action__startswith="second_factor.").order_by("id")
    return [row.action.partition(".")[2] for row in rows]


def wrong_codes(person: Any) -> int:
    """Return the number of wrong codes that count against the account."""
    row = factors.factor_of(person)
    assert row is not None
    return len(row.data["wrong"])


def at_the_code(name: str = "ada", address: str = "192.0.2.1") -> Visitor:
    """Return a visitor who has entered the password."""
    visitor = Visitor(name, address)
    assert visitor.log_in()["Location"] == CODE
    return visitor


def test_code_is_valid_once(person: Any, app: tuple[App, list[str]]) -> None:
    code = app[0].code()
    assert at_the_code().give(code)["Location"] == "/oauth/apps"
    second = at_the_code()
    assert second.give(code).status_code == 200
    assert wrong_codes(person) == 1
    assert not second.user
    assert second.give(app[0].code(1))["Location"] == "/oauth/apps"
    assert (second.user, wrong_codes(person)) == (str(person.pk), 0)


def test_setup_code_is_used_up(person: Any, app: tuple[App, list[str]]) -> None:
    row = factors.factor_of(person)
    assert row is not None
    visitor = at_the_code()
    used = app[0].code(at=row.data["step"] * factors.STEP_SECONDS)
    assert visitor.give(used).status_code == 200
    assert (visitor.user, wrong_codes(person)) == ("", 1)
    assert visitor.give(app[0].code(1))["Location"] == "/oauth/apps"


def test_code_may_contain_spaces(app: tuple[App, list[str]]) -> None:
    code = app[0].code()
    assert at_the_code().give(f" {code[:3]} {code[3:]}")["Location"] == "/oauth/apps"


def test_recovery_code_is_valid_once(app: tuple[App, list[str]]) -> None:
    assert at_the_code().give(app[1][3])["Location"] == "/oauth/apps"
    second = at_the_code()
    second.give(app[1][3])
    assert not second.user
    assert second.give(app[1][4])["Location"] == "/oauth/apps"
    assert "8 left" in second.browser.get(OWN).content.decode()
    assert trail() == ["set_up", "recover", "recover"]


def test_five_wrong_codes_lock_account_from_every_address(
    app: tuple[App, list[str]],
) -> None:
    for number in range(factors.MAX_WRONG - 1):
        assert at_the_code(address=f"192.0.2.{number}").give(app[0].wrong()).status_code == 200
    fifth = at_the_code(address="198.51.100.1")
    assert fifth.give(app[0].wrong()).status_code == 429
    locked = fifth.give(app[0].code())
    assert locked.status_code == 429
    assert "Too many wrong codes. Try again in 1" in locked.content.decode()
    assert fifth.give(app[1][0]).status_code == 429
    assert not fifth.user
    assert trail() == ["set_up", "lock"]


def test_lock_ends_after_ten_minutes(person: Any, app: tuple[App, list[str]]) -> None:
    visitor = at_the_code()
    for _ in range(factors.MAX_WRONG):
        visitor.give(app[0].wrong())
    row = factors.factor_of(person)
    assert row is not None
    row.data["wrong"] = [at - factors.LOCK_SECONDS for at in row.data["wrong"]]
    row.save()
    assert visitor.give(app[0].code())["Location"] == "/oauth/apps"


def test_correct_password_does_not_reset_failure_count(app: tuple[App, list[str]]) -> None:
    for _ in range(4):
        at_the_code().give(app[0].wrong())
    assert AccessAttempt.objects.get().failures_since_start == 4


def test_lock_does_not_affect_other_users(app: tuple[App, list[str]]) -> None:
    get_user_model().objects.create_user("bob", password=PASSWORD)
    for number in range(factors.MAX_WRONG + 1):
        at_the_code(address=f"192.0.2.{number}").give(app[0].wrong())
    assert Visitor("bob").log_in()["Location"] == "/oauth/apps"


def test_secrets_and_recovery_codes_are_not_stored_in_plain_text(person: Any) -> None:
    visitor = Visitor("ada")
    visitor.log_in()
    secret = visitor.secret()
    assert secret not in str([row.get_decoded() for row in Session.objects.all()])
    app = App(secret)
    codes = visitor.codes_of(visitor.give(app.code(), SET_UP))
    kept = str([row.data for row in Authenticator.objects.all()])
    assert secret not in kept
    assert not any(code in kept for code in codes)


def test_wrong_code_does_not_set_up_app(person: Any) -> None:
    visitor = Visitor("ada")
    visitor.log_in()
    app = App(visitor.secret())
    assert (
        "Check that the clock of your device is correct."
        in visitor.give(app.wrong(), SET_UP).content.decode()
    )
    assert not has_factor(person)
    assert visitor.give(app.code(), SET_UP).status_code == 200
    assert has_factor(person)


def test_session_alone_cannot_replace_authenticator_app(person: Any, app: tuple[App, list[str]]) -> None:
    visitor = at_the_code()
    visitor.give(app[0].code())
    before = factors.factor_of(person)
    assert visitor.browser.get(SET_UP)["Location"] == OWN
    assert visitor.give(app[0].code(1), SET_UP)["Location"] == OWN
    for do in ("codes", "remove"):
        visitor.give(app[0].wrong(), OWN, do=do)
    after = factors.factor_of(person)
    assert before is not None
    assert after is not None
    assert before.data["secret"] == after.data["secret"]
    assert trail() == ["set_up"]


def test_new_recovery_codes_invalidate_old_ones(app: tuple[App, list[str]]) -> None:
    visitor = at_the_code()
    visitor.give(app[0].code())
    fresh = visitor.codes_of(visitor.give(app[0].code(1), OWN, do="codes"))
    assert not set(fresh) & set(app[1])
    again = at_the_code()
    again.give(app[1][0])
    assert not again.user
    again.give(fresh[0])
    assert again.user
    assert trail() == ["set_up", "new_codes", "recover"]


def test_user_removes_second_factor_with_code(person: Any, app: tuple[App, list[str]]) -> None:
    visitor = at_the_code()
    visitor.give(app[0].code())
    visitor.give(app[1][0], OWN, do="remove")
    assert not has_factor(person)
    assert Visitor("ada").log_in()["Location"] == "/oauth/apps"
    assert trail() == ["set_up", "recover", "remove"]


def test_administrator_removes_second_factor_of_another_user(app: tuple[App, list[str]]) -> None:
    bob = get_user_model().objects.create_user("bob", password=PASSWORD)
    theirs = Visitor("bob")
    theirs.log_in()
    theirs.set_up()
    visitor = at_the_code()
    visitor.give(app[0].code())
    page = visitor.browser.get(f"/admin/auth/user/{bob.pk}/change/").content.decode()
    assert f"/admin/auth/user/{bob.pk}/second-factor/" in page
    visitor.browser.post(f"/admin/auth/user/{bob.pk}/second-factor/")
    assert not has_factor(bob)
    row = AuditEvent.objects.get(action="second_factor.remove")
    assert (row.actor_name, row.object_kind, row.object_key) == ("ada", "user", "bob")
    assert (
        "second factor set up"
        not in visitor.browser.get(f"/admin/auth/user/{bob.pk}/change/").content.decode()
    )


def test_command_removes_second_factor(person: Any, app: tuple[App, list[str]]) -> None:
    told = StringIO()
    call_command("mcp_remove_second_factor", "ada", stdout=told)
    assert told.getvalue() == "The second factor of ada was removed.\n"
    assert not has_factor(person)
    assert AuditEvent.objects.get(action="second_factor.remove").actor_name == "system"
    for name in ("ada", "nobody"):
        with pytest.raises(CommandError):
            call_command("mcp_remove_second_factor", name)


def test_unreadable_secret_denies_login(
    settings: Any, person: Any, app: tuple[App, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    visitor = at_the_code()
    settings.MCP = {**settings.MCP, "STATE_KEYS": ["another secret of more than 32 characters"]}
    visitor.give(app[0].code())
    visitor.give(app[1][0])
    assert not visitor.user
    assert "cannot be read" in caplog.text
    assert factors.remove(person, actor=None)


def test_fifth_wrong_code_blocks_correct_code(
    person: Any, app: tuple[App, list[str]], clock: Stopped
) -> None:
    row = factors.factor_of(person)
    assert row is not None
    row.data["wrong"] = [clock.time()] * (factors.MAX_WRONG - 1)
    row.save()
    assert factors.prove(person, app[0].wrong()).wait
    blocked = factors.prove(person, app[0].code())
    assert not blocked.proven
    assert 0 < blocked.wait <= factors.LOCK_SECONDS + 1
    # The same code is right once the wrong ones are old.
    row.refresh_from_db()
    row.data["wrong"] = [at - factors.LOCK_SECONDS for at in row.data["wrong"]]
    row.save()
    assert factors.prove(person, app[0].code()).proven
