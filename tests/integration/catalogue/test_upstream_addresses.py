"""URIs of upstream servers that could lead to other servers, or to resources of this one."""

from __future__ import annotations

import pytest

from mcp_app.catalogue.sources.upstream import addresses
from mcp_app.models import Draft, Resource, ResourceTemplate

pytestmark = pytest.mark.django_db
EXACT, TEMPLATE = "https://docs.example/one", "https://wiki.example/{+page}"


def here(upstream: str, uri: str) -> str:
    return addresses._read(upstream).here(uri)


@pytest.mark.parametrize("request_", [None, {"upstream": "wiki"}], ids=["own", "other"])
@pytest.mark.parametrize("own", ["", "https://{+rest}"], ids=["no-template", "template"])
@pytest.mark.parametrize("uri", [EXACT, "https://wiki.example/secret/page"])
def test_link_to_a_resource_of_another_server_gets_the_scheme_of_its_server(
    uri: str, own: str, request_: dict[str, str] | None
) -> None:
    Resource.objects.create(uri=EXACT, name="one", request=request_)
    ResourceTemplate.objects.create(uri_template=TEMPLATE, name="wiki", request=request_)
    if own:
        ResourceTemplate.objects.create(
            uri_template=own, name="rest", request={"upstream": "crm", "template": own}
        )
    assert here("crm", uri) == f"up+crm:{uri}"
    assert here("crm", "https://else.example/") == "https://else.example/"


def test_uris_in_drafts_of_another_server_are_taken() -> None:
    values = {"request": {"upstream": "wiki", "template": "docs://{page}", "definition": "d"}}
    Draft.objects.create(kind=ResourceTemplate.KIND, source="upstream", key="docs://{page}", values=values)
    assert addresses.proposed("crm", ["docs://{+path}"]) == {"docs://{+path}": "up+crm:docs://{+path}"}
    assert addresses.proposed("wiki", ["docs://{page}"]) == {"docs://{page}": "docs://{page}"}
