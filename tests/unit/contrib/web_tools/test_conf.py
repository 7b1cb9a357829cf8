"""Settings of the web tools: typed, with an error that names the invalid key."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from django.core.exceptions import ImproperlyConfigured

from mcp_app.contrib.web_tools import conf
from mcp_app.contrib.web_tools.apps import check_settings


def test_default_policy_allows_web_ports_and_no_private_network() -> None:
    policy = conf.load({}).policy
    assert policy.allow == frozenset()
    assert policy.ports == {80, 443, 8080, 8443}


def test_every_setting_is_applied() -> None:
    settings = conf.load(
        {
            "ALLOW": ["10.0.0.0/8", "fd00::1"],
            "PORTS": [80],
            "SECONDS": 3,
            "CONNECT_SECONDS": 1.5,
            "MAX_BYTES": 9,
            "MAX_RAW_BYTES": 8,
            "MAX_REDIRECTS": 1,
            "USER_AGENT": "us/1",
            "MAX_CHARACTERS": 7,
            "CONVERT_SECONDS": 2,
        }
    )
    policy = settings.policy
    assert policy.allow == {ip_network("10.0.0.0/8"), ip_network("fd00::1/128")}
    assert (policy.ports, policy.seconds, policy.connect_seconds) == ({80}, 3.0, 1.5)
    assert (policy.max_bytes, policy.max_raw_bytes, policy.max_redirects, policy.user_agent) == (
        9,
        8,
        1,
        "us/1",
    )
    assert (settings.max_characters, settings.convert_seconds) == (7, 2.0)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"ALOW": []}, "no key 'ALOW'"),
        ({"ALLOW": "10.0.0.0/8"}, "ALLOW"),
        ({"ALLOW": ["10.0.0.1/8"]}, "ALLOW"),
        ({"ALLOW": ["inside.example"]}, "ALLOW"),
        ({"PORTS": 80}, "PORTS"),
        ({"PORTS": ["80"]}, "PORTS"),
        ({"SECONDS": 0}, "SECONDS"),
        ({"SECONDS": True}, "SECONDS"),
        ({"MAX_BYTES": 1.5}, "MAX_BYTES"),
        ({"MAX_CHARACTERS": -1}, "MAX_CHARACTERS"),
        ({"USER_AGENT": "a\r\nb: c"}, "USER_AGENT"),
    ],
)
def test_invalid_setting_raises_with_requirement(settings, values: dict, named: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=named):
        conf.load(values)
    settings.MCP_WEB_TOOLS = values
    assert [error.id for error in check_settings()] == ["mcp_web_tools.E001"]


def test_valid_settings_pass_check(settings) -> None:
    settings.MCP_WEB_TOOLS = {"SECONDS": 5}
    assert check_settings() == []
    assert conf.get().policy.seconds == 5.0
