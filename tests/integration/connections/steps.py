"""The steps of a user who connects an account, and calls of a tool with it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.test import Client as Browser

from mcp_app.catalogue.upstreams import importing, refreshing
from mcp_app.models import Upstream, UserConnection
from mcp_app.testing import call_tool
from tests.servers.login_server import LoginServer

HERE = "http://127.0.0.1:8765"


def browser_of(user: Any, **options: Any) -> Browser:
    browser = Browser(**options)
    browser.force_login(user)
    return browser


def begin(browser: Browser, crm: Upstream) -> dict[str, str]:
    """Press "Connect", and return the parameters of the authorization request."""
    page = browser.post(f"/connections/{crm.pk}/connect/")
    assert page.status_code == 200, page.context["reason"]
    return {name: values[-1] for name, values in parse_qs(urlsplit(page.context["url"]).query).items()}


def back(browser: Browser, crm: Upstream, **response: str) -> Any:
    return browser.get(f"/connections/{crm.pk}/callback?{urlencode(response)}")


def connect(user: Any, crm: Upstream, site: LoginServer, account: str = "") -> UserConnection:
    browser = browser_of(user)
    asked = begin(browser, crm)
    code = site.code(account or user.username)
    answer = back(browser, crm, state=asked["state"], code=code, iss=site.origin)
    assert answer.status_code == 302, answer.context["reason"]
    return UserConnection.objects.get(user=user, upstream=crm)


def publish(crm: Upstream, actor: Any) -> None:
    refreshing.refresh(upstream=crm, actor=actor)
    crm.refresh_from_db()
    done = importing.import_items(upstream=crm, keys=["whoami"], actor=None, publish=True)
    assert done.skipped == {}


def whoami(user: Any) -> str:
    return str(call_tool("crm_whoami", stored=True, user=user)["content"][0]["text"])
