"""Connections in the API, in the admin and on the command line."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.test import Client as Browser

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.upstreams import storing
from mcp_app.credentials import services as credentials
from mcp_app.models import Upstream, UserConnection
from tests.integration.connections.steps import browser_of, connect, publish
from tests.servers.login_server import LoginServer

pytestmark = pytest.mark.django_db(transaction=True)
CLIENT = {"client_id": "ours", "client_secret": "s3cret-of-the-client"}


def test_api_shows_and_ends_the_connections_of_the_caller(
    crm: Upstream, ada: Any, bob: Any, site: LoginServer
) -> None:
    connect(ada, crm, site)
    connect(bob, crm, site)
    _, key = issue_api_key(user=ada, name="mine")
    api = Browser(headers={"authorization": f"Bearer {key}"})
    (shown,) = api.get("/api/connections/").json()
    assert (shown["server"], shown["issuer"], shown["state"]) == ("crm", site.origin, "connected")
    assert "token" not in str(shown)
    assert [api.delete("/api/connections/crm/").status_code for _ in range(2)] == [204, 204]
    assert UserConnection.objects.get().user == bob
    assert Browser().get("/api/connections/").status_code == 401


def test_administrator_sees_and_ends_connections_but_no_token(
    crm: Upstream, ada: Any, bob: Any, site: LoginServer
) -> None:
    row = connect(bob, crm, site)
    admin = browser_of(ada)
    listed = admin.get("/admin/mcp_app/userconnection/").content.decode()
    page = admin.get(f"/admin/mcp_app/userconnection/{row.pk}/change/").content.decode()
    server = admin.get(f"/admin/mcp_app/upstream/{crm.pk}/change/").content.decode()
    assert all("bob" in each for each in (listed, page))
    assert 'id="mcp-user-connections"' in server
    for each in (listed, page, server):
        assert row.sealed not in each
        assert "access-token" not in each
    admin.post(f"/admin/mcp_app/userconnection/{row.pk}/end/")
    assert UserConnection.objects.count() == 0
    assert site.forms_at("/revoke")


def test_command_adds_a_server_with_user_connections(crm: Upstream, ada: Any, site: LoginServer) -> None:
    connect(ada, crm, site)
    out = StringIO()
    call_command("mcp_upstream", "refresh", "crm", "--actor", "ada", stdout=out)
    assert "1 tool" in out.getvalue()


def test_entered_client_is_checked_when_the_server_is_saved(crm: Upstream, site: LoginServer) -> None:
    credentials.save_credential(
        actor=None, name="app", kind="oauth_client", origins=[site.origin], secret=CLIENT
    )
    credentials.save_credential(
        actor=None, name="key", kind="bearer", origins=[site.origin], secret={"token": "t"}
    )
    for values, field in (
        ({"oauth_client": "key"}, "oauth_client"),
        ({"oauth_client": "app", "user_connections": False}, "oauth_client"),
        ({"credential": "app"}, "credential"),
    ):
        with pytest.raises(ValidationError) as error:
            storing.save_upstream(actor=None, upstream=crm, **values)
        assert field in error.value.message_dict
    storing.save_upstream(actor=None, upstream=crm, oauth_client="app")
    with pytest.raises(ValidationError):
        credentials.delete_credential(credential=credentials.Credential.objects.get(name="app"), actor=None)


def test_new_address_gets_the_oauth_client_only_from_users_of_credentials(
    crm: Upstream, site: LoginServer, django_user_model: Any
) -> None:
    credentials.save_credential(
        actor=None, name="app", kind="oauth_client", origins=[site.origin], secret=CLIENT
    )
    storing.save_upstream(actor=None, upstream=crm, oauth_client="app")
    actor = django_user_model.objects.create_user("editor", password="x")
    with pytest.raises(ValidationError) as error:
        storing.save_upstream(actor=actor, upstream=crm, url="https://other.example/mcp")
    assert error.value.message_dict == {"oauth_client": [credentials.NOT_ALLOWED]}
    actor = django_user_model.objects.create_superuser("chief", password="x")
    storing.save_upstream(actor=actor, upstream=crm, url="https://other.example/mcp")


def test_lists_can_be_read_with_a_credential_of_the_server(
    crm: Upstream, ada: Any, site: LoginServer
) -> None:
    site.accounts["s3cret-of-the-server"] = "service"
    secret = {"token": "s3cret-of-the-server"}
    credentials.save_credential(
        actor=None, name="service", kind="bearer", origins=[site.origin], secret=secret
    )
    storing.save_upstream(actor=None, upstream=crm, credential="service")
    crm.refresh_from_db()
    publish(crm, None)
    page = browser_of(ada).get("/connections/")
    assert [row["state"] for row in page.context["rows"]] == ["missing"]
