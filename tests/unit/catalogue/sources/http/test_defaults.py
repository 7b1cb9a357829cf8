"""Defaults of parameters: sent for missing arguments, and never part of the path."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.sources.http.filling import filled
from mcp_app.catalogue.sources.http.plan import RequestPlan
from mcp_app.catalogue.sources.http.rows import with_defaults, without_defaults

PLAN: dict[str, Any] = {"origin": "https://a.example", "method": "POST", "path": "/x/{id}"}
PARAMETERS = [{"argument": "id", "in": "path"}, {"argument": "n", "in": "query"}]
BODY = {"mode": "json", "template": {"deep": [{"$argument": "note"}]}}
SCHEMA = {"properties": {"n": {"default": 3}, "note": {"default": "-"}, "id": {"default": "7"}}}


@pytest.mark.parametrize(("arguments", "query"), [({}, "?n=3"), ({"n": None}, "?n=3"), ({"n": 0}, "?n=0")])
def test_default_is_sent_for_a_missing_argument(arguments: dict[str, Any], query: str) -> None:
    plan = RequestPlan.read({**PLAN, "path": "/", "parameters": [{**PARAMETERS[1], "default": 3}]})
    assert filled(plan, arguments).url == f"https://a.example/{query}"


def test_argument_of_the_path_has_no_default() -> None:
    with pytest.raises(DefinitionError, match="has no default"):
        RequestPlan.read({**PLAN, "parameters": [{**PARAMETERS[0], "default": "7"}]})


def test_defaults_of_the_schema_are_added_and_removed_at_any_depth() -> None:
    request = {**PLAN, "parameters": PARAMETERS, "body": BODY}
    added = with_defaults(request, SCHEMA)
    assert added["parameters"] == [PARAMETERS[0], {**PARAMETERS[1], "default": 3}]
    assert added["body"]["template"] == {"deep": [{"$argument": "note", "default": "-"}]}
    assert without_defaults(added, SCHEMA) == request
    assert without_defaults(added, {}) == added
    assert with_defaults({**request, "operation": "POST /x/{id}"}, SCHEMA)["parameters"] == PARAMETERS
