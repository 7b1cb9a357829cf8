"""Environment settings of an external identity provider."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from mcp_app import conf
from mcpsite.environment import WrongSettings, read
from mcpsite.provider_environment import ProviderEnvironment

ISSUER = "https://login.example.com/realms/main"


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_AUTH", "external")
    monkeypatch.setenv("OAUTH_ISSUER", ISSUER)


def test_issuer_is_sufficient_on_loopback() -> None:
    told = read()
    assert (told.auth, told.oauth_issuer, told.oauth_audience, told.api_keys) == (
        "external",
        ISSUER,
        (),
        True,
    )
    assert told.offers_oauth is False
    provider = {name.upper(): getattr(told, name) for name in ProviderEnvironment.model_fields}
    assert conf.load({"AUTH": told.auth, "PUBLIC_URL": told.client_url, **provider})


def test_mappings_are_json_and_lists_are_comma_separated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAUTH_GROUPS", '{"mcp ops": "MCP operator"}')
    monkeypatch.setenv("OAUTH_SCOPES", '{"use": "mcp mcp:tools"}')
    monkeypatch.setenv("OAUTH_AUDIENCE", "api://mcp, https://mcp.example.com/mcp")
    monkeypatch.setenv("EGRESS_ALLOW", "10.0.0.0/8,192.168.1.7")
    told = read()
    assert told.oauth_groups == {"mcp ops": "MCP operator"}
    assert told.oauth_scopes == {"use": "mcp mcp:tools"}
    assert told.oauth_audience == ("api://mcp", "https://mcp.example.com/mcp")
    assert told.egress_allow == ("10.0.0.0/8", "192.168.1.7")


def test_external_auth_requires_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OAUTH_ISSUER")
    with pytest.raises(WrongSettings, match="set OAUTH_ISSUER"):
        read()


def test_public_bind_requires_public_url_or_audience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST", "0.0.0.0")
    monkeypatch.setenv("ALLOWED_HOSTS", "mcp.example.com")
    with pytest.raises(WrongSettings, match="set PUBLIC_URL, or OAUTH_AUDIENCE"):
        read()
    monkeypatch.setenv("OAUTH_AUDIENCE", "api://mcp")
    assert read().auth == "external"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OAUTH_ISSUER", "login.example.com"),
        ("OAUTH_ISSUER", "http://login.example.com"),
        ("OAUTH_JWKS_URL", "file:///keys"),
        ("OAUTH_JWKS_URL", "http://10.0.0.1/keys"),
        ("OAUTH_GROUPS", "ops=operators"),
        ("OAUTH_GROUPS", '["ops"]'),
        ("OAUTH_GROUPS", '{"ops": ["a"]}'),
        ("OAUTH_SCOPES", "{"),
        ("EGRESS_ALLOW", "everything"),
        ("API_KEYS", "perhaps"),
        ("OAUTH_CREATE_USERS", "yes please"),
    ],
)
def test_invalid_value_names_setting_and_remedy(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(WrongSettings, match=f"Wrong setting: {name} .*Set it to"):
        read()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"OAUTH_ISSUER": ""}, "OAUTH_ISSUER"),
        ({"PUBLIC_URL": ""}, "PUBLIC_URL or OAUTH_AUDIENCE"),
        ({"OAUTH_ISSUER": "http://login.example.com"}, "https"),
        ({"OAUTH_ISSUER": "https://login.example.com/?x"}, "https"),
        ({"OAUTH_ISSUER": "https://user@login.example.com"}, "https"),
        ({"OAUTH_ISSUER": "https://login.example.com:port"}, "https"),
        ({"OAUTH_ISSUER": "https://login.example.com/" + "x" * 250}, "https"),
        ({"OAUTH_JWKS_URL": "http://login.example.com/keys"}, "https"),
        ({"OAUTH_SCOPES": {'say "hello"': "mcp"}}, "which is not a scope name"),
        ({"OAUTH_SCOPES": {"use": "mcp:everything"}}, "mcp:everything"),
        ({"OAUTH_SCOPES": ["use"]}, "a dict of strings"),
        ({"OAUTH_GROUPS": {"ops": 7}}, "a dict of strings"),
        ({"EGRESS_ALLOW": ["everything"]}, "everything"),
    ],
)
def test_django_settings_reject_same_invalid_values(values: dict[str, object], words: str) -> None:
    good = {"AUTH": "external", "PUBLIC_URL": "https://mcp.example.com", "OAUTH_ISSUER": ISSUER}
    assert conf.load(good)
    with pytest.raises(ImproperlyConfigured, match=words):
        conf.load({**good, **values})
