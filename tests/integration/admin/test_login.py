"""Admin login: password guessing is limited by address and for a time, without locking out others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.test import Client

from mcp_app.admin.base import HAS_UNFOLD

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

LIMIT = 10
RIGHT = "correct-horse-battery"
LOGINS = ("/admin/login/", "/accounts/login/")


@pytest.fixture(autouse=True)
def root() -> User:
    return User.objects.create_superuser("root", password=RIGHT)


def log_in(address: str, password: str = RIGHT, username: str = "root", page: str = "/admin/login/") -> Any:
    form = {"username": username, "password": password, "next": "/admin/"}
    return Client(REMOTE_ADDR=address).post(page, form)


def test_wrong_passwords_lock_the_address_after_ten_attempts() -> None:
    guesses = range(3 * LIMIT)
    statuses = [log_in("192.0.2.1", f"wrong-{number}", f"name-{number}").status_code for number in guesses]
    assert statuses[: LIMIT - 1] == [200] * (LIMIT - 1)
    assert set(statuses[LIMIT:]) == {429}
    locked = log_in("192.0.2.1")
    assert locked.status_code == 429
    assert "Try again in 600 seconds." in locked.content.decode()
    assert "sessionid" not in locked.cookies


def test_wrong_passwords_lock_the_page_of_users_without_oauth(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH": False}
    statuses = [
        log_in("192.0.2.1", f"wrong-{number}", f"name-{number}", "/accounts/login/").status_code
        for number in range(LIMIT + 2)
    ]
    assert statuses[: LIMIT - 1] == [200] * (LIMIT - 1)
    assert set(statuses[LIMIT:]) == {429}


def test_lock_does_not_affect_other_addresses() -> None:
    for _ in range(LIMIT + 1):
        log_in("192.0.2.1", "wrong")
    assert log_in("192.0.2.2").status_code == 302


def test_right_password_resets_the_failures_of_its_account() -> None:
    for _ in range(3):
        for _ in range(LIMIT - 1):
            assert log_in("192.0.2.1", "wrong").status_code == 200
        assert log_in("192.0.2.1").status_code == 302


@pytest.mark.parametrize("page", LOGINS)
@pytest.mark.parametrize("between", LOGINS)
def test_right_password_of_another_account_resets_no_failures(page: str, between: str, settings: Any) -> None:
    """Nine guesses, a login to another account and nine more guesses had never been limited."""
    settings.MCP = {**settings.MCP, "AUTH": "required", "OAUTH": True, "PUBLIC_URL": "http://testserver"}
    User.objects.create_user("plain", password=RIGHT, is_staff=True)
    statuses = []
    for number in range(LIMIT):
        statuses.append(log_in("192.0.2.1", f"wrong-{number}", page=page).status_code)
        log_in("192.0.2.1", username="plain", page=between)
    assert statuses == [200] * (LIMIT - 1) + [429]
    assert log_in("192.0.2.1", page=page).status_code == 429
    assert log_in("192.0.2.2", page=page).status_code == 302


def test_lock_expires() -> None:
    for _ in range(LIMIT + 1):
        log_in("192.0.2.1", "wrong")
    for attempt in AccessAttempt.objects.all():
        attempt.attempt_time -= timedelta(minutes=11)
        attempt.save()
    assert log_in("192.0.2.1").status_code == 302


def test_guessing_stores_a_bounded_number_of_attempts() -> None:
    for number in range(3 * LIMIT):
        log_in("192.0.2.1", "wrong", f"name-{number}")
    assert AccessAttempt.objects.count() <= LIMIT


@pytest.mark.parametrize(
    "wanted",
    [
        "//evil.example",
        "%2f%2fevil.example",
        "%2F/evil.example",
        "https:%2f%2fevil.example",
        "%5c%5cevil.example",
    ],
)
def test_login_never_redirects_to_another_site(wanted: str) -> None:
    form = {"username": "root", "password": RIGHT, "next": wanted}
    assert "evil" not in Client().post("/admin/login/", form)["Location"]
    in_address = Client().post("/admin/login/", {**form, "next": ""}, query_params={"next": wanted})
    assert "evil" not in in_address["Location"]


def test_login_redirects_to_the_requested_page() -> None:
    form = {"username": "root", "password": RIGHT, "next": "/admin/mcp_app/tool/?q=a%2Fb"}
    assert Client().post("/admin/login/", form)["Location"] == "/admin/mcp_app/tool/?q=a%2Fb"


@pytest.mark.parametrize(
    ("address", "page"), [("/admin/logout/", "/admin/"), ("/accounts/logout/", "/oauth/apps")]
)
def test_link_to_the_logout_leads_to_the_page_with_its_button(
    address: str, page: str, root: User, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "AUTH": "required", "OAUTH": True, "PUBLIC_URL": "http://testserver"}
    browser = Client()
    browser.force_login(root)
    assert browser.get(address)["Location"] == page
    assert f'action="{address}"' in browser.get(page).content.decode()
    assert browser.post(address).status_code in (200, 302)
    assert browser.get(page).status_code == 302


def test_logout_page_says_that_the_user_is_logged_out() -> None:
    client = Client()
    client.force_login(User.objects.get(username="root"))
    text = client.post("/admin/logout/").content.decode()
    assert "You are logged out." in text
    assert "quality time" not in text
    assert 'href="/admin/"' in text


def test_refused_login_has_one_message() -> None:
    text = log_in("192.0.2.1", "wrong").content.decode()
    assert "Please enter the correct username" in text
    assert "Please correct" not in text


@pytest.mark.skipif(not HAS_UNFOLD, reason="Django's own head has the link")
@pytest.mark.parametrize("has_password", [True, False])
def test_account_menu_changes_the_password_of_users_who_have_one(
    has_password: bool, root: User, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "AUTH": "required", "OAUTH": True, "PUBLIC_URL": "http://testserver"}
    if not has_password:
        root.set_unusable_password()
        root.save()
    browser = Client()
    browser.force_login(root)
    assert ('href="/admin/password_change/"' in browser.get("/admin/").content.decode()) == has_password
