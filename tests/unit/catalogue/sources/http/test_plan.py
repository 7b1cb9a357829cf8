"""Plans that may be stored, and the field that each refusal names (INT-02, INT-04)."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.sources.http.plan import RequestPlan

USUAL = {"origin": "https://api.example.com", "method": "GET", "path": "/v1"}


def test_plan_has_defaults_and_one_spelling_of_its_origin() -> None:
    plan = RequestPlan.read({**USUAL, "origin": "HTTPS://API.example.com:443/"})
    assert (plan.origin, plan.success, plan.timeout) == ("https://api.example.com", ((200, 299),), 30.0)
    assert (plan.is_safe, plan.may_repeat, plan.succeeded(204), plan.succeeded(301)) == (
        True,
        True,
        True,
        False,
    )


PARAMETER = {"argument": "id", "in": "path"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"origin": ""}, "origin"),
        ({"origin": "https://{host}.example.com"}, "origin"),
        ({"origin": "https://api.example.com/v1"}, "origin"),
        ({"origin": "https://u:p@api.example.com"}, "origin"),
        ({"origin": "ftp://api.example.com"}, "origin"),
        ({"method": "get"}, "method"),
        ({"method": "CONNECT"}, "method"),
        ({"path": "v1"}, "path"),
        ({"path": "/a/../b"}, "path"),
        ({"path": "/a/%2E%2e/b"}, "path"),
        ({"path": "/a b"}, "path"),
        ({"path": "/a#b"}, "path"),
        ({"path": "/{id}?a={id}", "parameters": [PARAMETER]}, "path"),
        ({"path": "/{id}/{id}", "parameters": [PARAMETER]}, "path"),
        ({"path": "/{id}"}, "parameters"),
        ({"parameters": [PARAMETER]}, "parameters"),
        ({"parameters": [{"argument": "a", "in": "body"}]}, "parameters[0].in"),
        ({"parameters": [{"argument": "a", "in": "query", "style": "matrix"}]}, "parameters[0].style"),
        ({"parameters": [{"argument": "a", "in": "query"}] * 2}, "parameters"),
        *(
            ({"parameters": [{"argument": "a", "in": "header", "name": name}]}, "parameters[0].name")
            for name in (
                "Host", "content-length", "Transfer-Encoding", "Connection", "TE", "Trailer", "Upgrade",
                "Expect", "Authorization", "Cookie", "Proxy-Authorization", "Forwarded", "X-Forwarded-For",
                "Mcp-Session-Id", "a b", "a:b",
            )
        ),
        ({"headers": {"Authorization": "Bearer x"}}, "headers"),
        ({"headers": {"X-Forwarded-Host": "x"}}, "headers"),
        ({"headers": {"X-A": "1\r\nX-B: 2"}}, "headers.X-A"),
        ({"body": {"mode": "json", "template": {}}}, "body"),
        ({"method": "POST", "body": {"mode": "xml"}}, "body.mode"),
        ({"body": {"mode": "json", "template": {"a": {"$argument": 1}}}}, "body.template.a"),
        ({"method": "POST", "body": {"mode": "text"}}, "body.argument"),
        ({"success": "fine"}, "success"),
        ({"result": {"mapping": "a["}}, "result.mapping"),
        ({"result": {"mode": "html"}}, "result.mode"),
        ({"result": {"colour": 1}}, "result.colour"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"retries": 9}, "retries"),
        ({"method": "POST", "retries": 1}, "retries"),
        ({"method": "POST", "cache_seconds": 5}, "cache_seconds"),
        ({"pages": {"kind": "cursor", "parameter": "after"}}, "pages.token"),
        ({"pages": {"kind": "page"}}, "pages.parameter"),
        ({"colour": 1}, "colour"),
    ],
)  # fmt: skip
@pytest.mark.requirement("INT-02", "INT-04")
def test_refusal_names_the_field(change: dict[str, Any], named: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        RequestPlan.read({**USUAL, **change})
    assert str(refusal.value).startswith(f"{named}: ")


@pytest.mark.parametrize("json", [None, [], "x", {}, {"origin": "https://a.example"}])
def test_plan_needs_an_object_with_origin_method_and_path(json: Any) -> None:
    with pytest.raises(DefinitionError):
        RequestPlan.read(json)
