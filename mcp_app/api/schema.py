"""The description of the API: its root, the OpenAPI document, and the documentation page."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import NoReverseMatch, Resolver404, include, path, resolve
from django.urls import reverse as address_of
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings
from drf_spectacular.types import OpenApiTypes
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from mcp_app import conf
from mcp_app.api.base import METHODS, ApiView
from mcp_app.api.openapi import described
from mcp_app.api.page.reading import by_tag, prose
from mcp_app.api.permissions import PUBLIC
from mcp_app.api.problems import MEDIA_TYPE
from mcp_app.models import ApiDocument, Call, LimitRule

# Incremented if something is removed or its meaning changes.
VERSION = "1"
LISTS = (
    "tools",
    "prompts",
    "resources",
    "templates",
    "sessions",
    "messages",
    "calls",
    "keys",
    "credentials",
    "documents",
    "limits",
    "audit",
)
OTHERS = {
    "usage": "usage",
    "connections": "connections",
    "export": "catalogue-export",
    "import": "catalogue-import",
    "schema": "schema",
    "docs": "docs",
}
DESCRIPTION = """The functions of the admin for scripts, with the same permissions and audit trail.

Send `Authorization: Bearer <API key>`, or use the login of the admin with the header `X-CSRFToken`.
Lists are paginated: follow `next` until it is null. Errors are problem documents (RFC 9457)."""
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "object",
            "description": "The error messages of invalid values by field.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    },
    "additionalProperties": True,
}
SECURITY = {
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key or OAuth token, as for /mcp.",
    },
    "login": {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME},
}


class Root(ApiView):
    """The root of the API."""

    needs = {"get": PUBLIC}

    @described(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> HttpResponseBase:
        """Retrieve the root of the API.

        Returns the server, the caller and links to all lists. Browsers are redirected to the documentation.
        """
        if request.headers.get("Accept", "").startswith("text/html"):
            return HttpResponseRedirect(address_of("mcp_api:docs"))
        own = conf.get().server
        names = {**{name: f"{name}-list" for name in LISTS}, **OTHERS}
        return Response(
            {
                "server": own.name,
                "server_version": own.version,
                "api_version": VERSION,
                "user": request.user.get_username(),
                "principal": request.auth.key,
                "links": {name: reverse(f"mcp_api:{view}", request=request) for name, view in names.items()},
            }
        )


class Schema(ApiView):
    """The OpenAPI 3.1 document."""

    needs = {"get": PUBLIC}

    @described(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        """Retrieve the OpenAPI document."""
        return Response({**document(), "servers": [{"url": request.build_absolute_uri("/")}]})


class Docs(ApiView):
    """The documentation page. It shows the OpenAPI document and nothing else."""

    needs = {"get": PUBLIC}
    schema = None

    def get(self, request: Request) -> HttpResponseBase:
        """Render the documentation page."""
        described = document()
        context = {
            "admin_url": _admin_address("index"),
            "info": described["info"],
            "about": prose(described["info"]["description"]),
            "groups": by_tag(described),
        }
        return render(request._request, "mcp_api/docs.html", context)

    def handle_exception(self, exc: Exception) -> Any:
        """Redirect anonymous visitors of the documentation page to the login."""
        if isinstance(exc, NotAuthenticated) and (login := _admin_address("login")):
            return redirect_to_login(self.request.get_full_path(), login)
        return super().handle_exception(exc)


class Nothing(ApiView):
    """The view of all other addresses below the root."""

    needs = dict.fromkeys(METHODS, PUBLIC)
    schema = None

    def get(self, request: Request) -> Response:
        """Redirect to the address with a final slash, if the API has that address.

        Raises Http404 otherwise.
        """
        try:
            found = resolve(f"{request.path_info}/")
        except Resolver404:
            raise Http404 from None
        if found.url_name == "nothing":
            raise Http404
        response = Response(status=308)
        query = request.META.get("QUERY_STRING", "")
        response["Location"] = f"{request.path}/{f'?{query}' if query else ''}"
        return response

    post = patch = delete = get


def _admin_address(view: str) -> str:
    try:
        return address_of(f"admin:{view}")
    except NoReverseMatch:
        return ""


def document() -> dict[str, Any]:
    """Return the OpenAPI document of this installation without the server's address."""
    return copy.copy(_document(address_of("mcp_api:root")))


@cache
def _document(root: str) -> dict[str, Any]:
    overrides = {
        "TITLE": "MCP server REST API",
        "DESCRIPTION": DESCRIPTION,
        "VERSION": VERSION,
        "OAS_VERSION": "3.1.1",
        "SCHEMA_PATH_PREFIX": root.rstrip("/"),
        "PREPROCESSING_HOOKS": [],
        "POSTPROCESSING_HOOKS": [
            "drf_spectacular.hooks.postprocess_schema_enums",
            "mcp_app.api.schema.add_refusals",
        ],
        "COMPONENT_SPLIT_REQUEST": False,
        "SCHEMA_COERCE_PATH_PK_SUFFIX": False,
        "SORT_OPERATIONS": True,
        # Fields of the same name with different choices.
        "ENUM_NAME_OVERRIDES": {
            "CallStateEnum": Call.state.field.choices,
            "DocumentStateEnum": ApiDocument.State.choices,
            "LimitModeEnum": LimitRule.Mode.choices,
        },
    }
    patterns = [path(root.lstrip("/"), include("mcp_app.api.urls"))]
    with patched_settings(overrides):
        generator: Any = SchemaGenerator
        found: dict[str, Any] = generator(patterns=patterns).get_schema(request=None, public=True)
    return found


def add_refusals(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add authentication and the problem response to the operations."""
    components = result.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = PROBLEM
    components["securitySchemes"] = SECURITY
    result["security"] = [{name: []} for name in SECURITY]
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["responses"]["default"] = {
                "description": "The request failed.",
                "content": content,
            }
    return result
