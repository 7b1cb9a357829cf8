"""Every address that Django serves, and the addresses that are not pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, get_resolver

# Addresses without a page of their own, by the reason.
_NO_HANDS = "externalidentity|session|message|auditevent|call|approval|draft|userconnection"
NO_PAGE = {
    "a redirect": "None|admin:view_on_site|admin:logout|mcp_person",
    "served where people log in, with tests of their own": (
        r"mcp_oauth:(apps|authorize|company_\w+|login|logout|second_factor_code)|mcp_connections"
        "|mcp_connection_callback"
    ),
    "answers programs": "mcp_oauth:(metadata|register|revoke|token)|mcp_connection_client",
    "the sign-in, which has a test of its own": "admin:login",
    "JSON or a script for pages": (
        r"admin:(autocomplete|jsi18n|mcp_app_\w+_(live|try_token|try_snippets|try_run))"
        "|admin:mcp_app_apidocument_operations"
    ),
    "a part of a page": r"admin:search|admin:mcp_app_message_dashboard|admin:mcp_app_limitrule_(row_)?parts",
    "acts on a POST": (
        r"admin:mcp_app_\w+_(switch|undo|accept|revoke|end|stop|retry|approve|refuse|publish|discard"
        r"|fetch|select|remove|refresh|reset|triage)"
        r"|admin:mcp_app_message_search_(delete|rename|share|undo)|admin:auth_user_second-factor"
        r"|admin:mcp_oauth_(client_(enable|disable)|connection_end)|mcp_connection_(connect|end)"
    ),
    "a file": "admin:mcp_app_catalogue_export|mcp_server_json|mcp_console:download",
    "nobody may add by hand": (
        f"admin:mcp_app_(resourcetemplate|{_NO_HANDS})_add|admin:mcp_oauth_connection_add"
        "|admin:mcp_app_apidocument_add"
    ),
    "never deleted by hand": (
        f"admin:mcp_app_(resourcetemplate|apikey|{_NO_HANDS})_delete"
        "|admin:mcp_oauth_(client|connection)_delete|admin:mcp_app_(apidocument|upstream|limitrule|toolset)_delete"
    ),
    "has an empty history": (
        f"admin:mcp_app_(apikey|{_NO_HANDS})_history|admin:mcp_oauth_(client|connection)_history"
    ),
    "answers pages and programs in JSON": (
        r"mcp_console:(\w+_now|names|lines|message|incident|cancel|end)|mcp_api:(?!docs).*"
    ),
}


def addresses(patterns: Any = None, before: str = "", space: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and route of every address that Django serves."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield f"{space}{pattern.name}" if pattern.name else "None", route
        else:
            inner = f"{space}{pattern.namespace}:" if pattern.namespace else space
            yield from addresses(pattern.url_patterns, route, inner)


def reason(name: str) -> str:
    """Return the reason why the address is not a page; empty without one."""
    return next((why for why, which in NO_PAGE.items() if re.fullmatch(which, name)), "")
