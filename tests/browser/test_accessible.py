"""Pages of login and identity, checked by axe: no violation of WCAG 2.2 A and AA or of best practices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.axe import program, violations
from tests.browser.conftest import DRAWN, looks, picture, sign_in
from tests.browser.test_oauth import question
from tests.clients import node
from tests.samples.admin_seed import PASSWORD
from tests.servers.live import LiveServer
from tests.unit.oauth.second_factor.app import App

# A user with two connected clients, and an administrator; one client is verified.
ROWS = """
import json
from datetime import timedelta
from django.contrib.auth.models import Group
from django.utils import timezone
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.auth.own_addresses import resource
from mcp_app.models import ExternalIdentity
from mcp_app.oauth import connections, registration, secrets
from tests.samples.admin_seed import people

root, viewer, _ = people()
viewer.is_staff = True
viewer.groups.add(Group.objects.create(name="Editors"))
issue_api_key(user=root, name="laptop")
issue_api_key(user=root, name="build", expires_at=timezone.now() + timedelta(days=2))

def connected(client, user, scope):
    code = secrets.new(secrets.CODE)
    address = client.redirect_uris.split()[0]
    consent = connections.Consent(client, user, resource(), scope, address, "x" * 43)
    connection = connections.allow(consent, code)
    pair = secrets.Pair(secrets.new(secrets.ACCESS), secrets.new(secrets.REFRESH), scope, 4102444800.0)
    connections.exchange(connections.find_code(code, client), pair)
    return connection

from django.db import transaction
with transaction.atomic():
    said = {"client_name": "Editor", "redirect_uris": ["http://127.0.0.1:5/callback"]}
    unverified, _ = registration.register(registration.metadata_of(said), "127.0.0.1")
    web = {"client_name": "Web", "redirect_uris": ["https://client.example/callback"]}
    elsewhere, _ = registration.register(registration.metadata_of(web), "127.0.0.1")
    reports = registration.metadata_of({**said, "client_name": "Reports"})
    verified, _ = registration.create_client(reports, actor=root)
    off, _ = registration.create_client(registration.metadata_of({**said, "client_name": "Old"}), actor=root)
    connections.disable(off, actor=root)
    connected(unverified, root, "mcp mcp:tools")
    connection = connected(verified, root, "mcp mcp:tools mcp:resources mcp:prompts")
    connections.end(connected(verified, viewer, "mcp"), "a test")
    told = {"issuer": "https://login.example.com/realms/main", "groups_at": 1750000000}
    known = ExternalIdentity.objects.create(user=root, subject="0f8fad5b-d9cb-469f-a165-70867728950e", **told)
    ExternalIdentity.objects.create(user=viewer, subject="x" * 255, issuer="https://" + "a" * 200 + ".test")
group = Group.objects.get(name="Editors")
print(json.dumps({"client": unverified.pk, "entered": verified.pk, "off": off.pk, "connection": connection.pk,
                  "known": known.pk, "user": viewer.pk, "group": group.pk, "elsewhere": elsewhere.client_id}))
"""


@pytest.fixture(scope="module")
def identity() -> Iterator[tuple[LiveServer, dict[str, Any]]]:
    """Start a server that requires authentication; return it with its rows by name."""
    with LiveServer(web_processes=1, env={"MCP_AUTH": "required", "DEMO": "off"}) as running:
        yield running, json.loads(running.shell(ROWS).strip().splitlines()[-1])


@pytest.fixture(scope="module", autouse=True)
def _axe() -> None:
    """Skip these tests if axe is unavailable."""
    try:
        program()
    except node.NodeUnavailable as missing:
        pytest.skip(f"needs npm packages: {missing}")


class Reader:
    """A reader of pages that records the violations of each, in all looks."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.page: Page = context.new_page()
        self.base = base
        self.wrong: dict[str, list[str]] = {}

    def goto(self, name: str, path: str) -> None:
        """Open a page and check it."""
        self.page.goto(path if path.startswith("http") else self.base + path)
        self.read(name)

    def read(self, name: str) -> None:
        """Check the open page."""
        self.page.wait_for_function(DRAWN)
        for look in looks(self.page):
            picture(self.page, f"axe-{name}-{look}")
            if found := violations(self.page, look.rules):
                self.wrong[f"{name} {look}"] = found


def reader(chromium: Browser, base: str, stored: Any = None) -> Reader:
    """Open a browser."""
    context = chromium.new_context(
        storage_state=stored,
        color_scheme="light",
        viewport={"width": 1440, "height": 900},
        reduced_motion="reduce",
    )
    context.set_default_timeout(15_000)
    return Reader(context, base)


def test_login_consent_and_errors_are_accessible(
    identity: tuple[LiveServer, dict[str, Any]], chromium: Browser
) -> None:
    server, rows = identity
    visitor = reader(chromium, server.url.removesuffix("/mcp"))
    page = visitor.page
    asked = question(server, "http://127.0.0.1:5/callback")
    visitor.goto("login", asked)
    page.get_by_label("Username").fill("root")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    visitor.read("login-refused")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("button", name="Allow")).to_be_visible()
    visitor.read("consent")
    page.evaluate("document.querySelector('[name=ticket]').value = 'of another login'")
    page.get_by_role("button", name="Allow").click()
    expect(page.get_by_role("alert")).to_be_visible()
    visitor.read("expired")
    visitor.goto("denied", "/oauth/authorize?client_id=nobody")
    parameters = {"client_id": rows["elsewhere"], "redirect_uri": "https://client.example/callback"}
    visitor.goto("not-sent-back", f"/oauth/authorize?{urlencode(parameters)}")
    expect(page.get_by_role("link", name="Return to https://client.example")).to_be_visible()
    visitor.goto("apps", "/oauth/apps")
    page.context.close()
    assert not visitor.wrong, json.dumps(visitor.wrong, indent=1)


def test_identity_admin_pages_are_accessible(
    identity: tuple[LiveServer, dict[str, Any]], chromium: Browser
) -> None:
    server, rows = identity
    base = server.url.removesuffix("/mcp")
    visitor = reader(chromium, base, sign_in(chromium, base, "root"))
    oauth, own, auth = "/admin/mcp_oauth", "/admin/mcp_app", "/admin/auth"
    for name, path in {
        "clients": f"{oauth}/client/",
        "client": f"{oauth}/client/{rows['client']}/change/",
        "client-entered": f"{oauth}/client/{rows['entered']}/change/",
        "client-off": f"{oauth}/client/{rows['off']}/change/",
        "client-add": f"{oauth}/client/add/",
        "connections": f"{oauth}/connection/",
        "connection": f"{oauth}/connection/{rows['connection']}/change/",
        "identities": f"{own}/externalidentity/",
        "identity": f"{own}/externalidentity/{rows['known']}/change/",
        "user": f"{auth}/user/{rows['user']}/change/",
        "user-add": f"{auth}/user/add/",
        "group": f"{auth}/group/{rows['group']}/change/",
        "group-add": f"{auth}/group/add/",
    }.items():
        visitor.goto(name, path)
    visitor.page.context.close()
    assert not visitor.wrong, json.dumps(visitor.wrong, indent=1)


@pytest.fixture(scope="module")
def two_factors() -> Iterator[LiveServer]:
    """Start a server that requires a second factor, with a user without one."""
    pytest.importorskip("qrcode", reason="requirements-sso.txt is not installed")
    with LiveServer(web_processes=1, env={"MCP_AUTH": "required", "SECOND_FACTOR": "everybody"}) as running:
        yield running


def test_second_factor_pages_are_accessible(two_factors: LiveServer, chromium: Browser) -> None:
    name = "ada"
    two_factors.shell(
        "from django.contrib.auth import get_user_model\n"
        f"get_user_model().objects.create_superuser({name!r}, password={PASSWORD!r})"
    )
    base = two_factors.url.removesuffix("/mcp")
    visitor = reader(chromium, base)
    page = visitor.page
    log_in(visitor, name)
    visitor.read("factor-set-up")
    secret = page.locator("code").inner_text().replace(" ", "")
    app = App(secret)
    page.get_by_role("textbox", name="Code").fill(app.wrong())
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_role("alert")).to_be_visible()
    visitor.read("factor-not-set-up")
    page.get_by_role("textbox", name="Code").fill(app.code())
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_role("status")).to_be_visible()
    visitor.read("factor-codes")
    codes = page.locator("li code").all_inner_texts()
    page.get_by_role("link", name="I saved them").click()
    expect(page.get_by_role("heading", name="Connected apps")).to_be_visible()
    visitor.goto("factor", "/accounts/second-factor/")
    page.context.clear_cookies()
    log_in(visitor, name)
    visitor.read("factor-code")
    page.get_by_role("textbox", name="Code").fill(app.wrong())
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    visitor.read("factor-wrong")
    page.get_by_role("textbox", name="Code").fill(codes[0])
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Connected apps")).to_be_visible()
    visitor.goto("factor-of-a-user", f"{base}/admin/auth/user/?q={name}")
    page.get_by_role("link", name=name).first.click()
    expect(page.get_by_role("button", name="Remove second factor")).to_be_visible()
    visitor.read("factor-in-the-admin")
    page.get_by_role("button", name="Remove second factor").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_text("was removed")).to_be_visible()
    page.context.close()
    assert not visitor.wrong, json.dumps(visitor.wrong, indent=1)


def log_in(visitor: Reader, name: str) -> None:
    """Enter user name and password."""
    visitor.page.goto(f"{visitor.base}/accounts/login/")
    visitor.page.get_by_label("Username").fill(name)
    visitor.page.get_by_label("Password").fill(PASSWORD)
    visitor.page.get_by_role("button", name="Log in").click()


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[LiveServer]:
    """Start a server that accepts tokens of an unreachable identity provider."""
    env = {"MCP_AUTH": "external", "OAUTH_ISSUER": "http://127.0.0.1:9", "OAUTH_AUDIENCE": "api://mcp"}
    with LiveServer(web_processes=1, env=env) as running:
        running.shell("from tests.samples.admin_seed import people; people()")
        yield running


def test_provider_status_and_token_test_are_accessible(elsewhere: LiveServer, chromium: Browser) -> None:
    base = elsewhere.url.removesuffix("/mcp")
    visitor = reader(chromium, base, sign_in(chromium, base, "root"))
    visitor.goto("provider", "/admin/mcp_app/externalidentity/")
    visitor.page.get_by_label("Test a token").fill("no token at all")
    visitor.page.get_by_role("button", name="Test", exact=True).click()
    expect(visitor.page.get_by_role("alert")).to_contain_text("Refused")
    visitor.read("token-tried")
    visitor.page.context.close()
    assert not visitor.wrong, json.dumps(visitor.wrong, indent=1)


@pytest.fixture(scope="module")
def company() -> Iterator[LiveServer]:
    """Start a server whose users log in by an unreachable identity provider."""
    pytest.importorskip("allauth", reason="requirements-sso.txt is not installed")
    env = {
        "MCP_AUTH": "required",
        "LOGIN_ISSUER": "http://127.0.0.1:9",
        "LOGIN_CLIENT_ID": "mcp",
        "LOGIN_NAME": "Example Incorporated of Somewhere Far Away",
    }
    with LiveServer(web_processes=1, env=env) as running:
        yield running


def test_company_login_and_its_failure_are_accessible(company: LiveServer, chromium: Browser) -> None:
    visitor = reader(chromium, company.url.removesuffix("/mcp"))
    visitor.goto("company-login", "/oauth/apps")
    visitor.page.get_by_role("link", name="Log in with").click()
    expect(visitor.page.get_by_role("alert")).to_contain_text("could not be reached")
    visitor.read("company-failed")
    visitor.page.context.close()
    assert not visitor.wrong, json.dumps(visitor.wrong, indent=1)
