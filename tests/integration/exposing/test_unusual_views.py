"""Unusual viewsets: non-object bodies, forms, files, other keys and routes."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import pytest
from django.core.exceptions import SuspiciousOperation
from django.http import FileResponse, HttpResponse, HttpResponseRedirect
from django.urls import include, path
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, parsers, serializers, status, versioning, viewsets
from rest_framework.decorators import action
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import DefaultRouter

from mcp_app import expose
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.exposure.viewsets.calls import STATUS
from mcp_app.catalogue.schemas.client_rules import refusals
from mcp_app.testing import call_tool
from tests.integration.exposing.shop import Customer, CustomerViewSet
from tests.samples.media_samples import AUDIO, FOR_MODELS, HTML, SVG

# The response of the picture view.
PICTURE: dict[str, Any] = {}
NUMBERS = {"type": "array", "items": {"type": "integer"}}


class Line(serializers.Serializer[Any]):
    pk = serializers.IntegerField()
    words = serializers.ListField(child=serializers.CharField(), required=False)


class UnusualViewSet(viewsets.ViewSet):
    """Unusual."""

    permission_classes = (AllowAny,)
    versioning_class = versioning.URLPathVersioning

    @extend_schema(request={"application/json": NUMBERS})
    @action(detail=False, methods=["post"])
    def add(self, request: Request, **_: Any) -> Response:
        """Add numbers."""
        return Response(sum(request.data))

    @extend_schema(request=Line)
    @action(detail=True, methods=["put"])
    def line(self, request: Request, pk: str, **_: Any) -> Response:
        """Has a member that is called like the key."""
        return Response({"path": pk, "body": request.data})

    @extend_schema(request=Line)
    @action(detail=False, methods=["post"], parser_classes=[parsers.FormParser])
    def form(self, request: Request, **_: Any) -> Response:
        """Takes forms."""
        return Response(dict(request.data.lists()))

    @extend_schema(request=Line)
    @action(detail=False, methods=["post"], parser_classes=[parsers.MultiPartParser])
    def upload(self, request: Request, **_: Any) -> Response:
        """Takes files only."""
        return Response()

    @action(detail=False)
    def download(self, request: Request, **_: Any) -> FileResponse:
        """A file."""
        return FileResponse(io.BytesIO(b"\x00\x01"), content_type="application/x-acme")

    @action(detail=False)
    def picture(self, request: Request, **_: Any) -> HttpResponse:
        """A picture."""
        return HttpResponse(**PICTURE)

    @action(detail=False)
    def away(self, request: Request, **_: Any) -> HttpResponseRedirect:
        """Elsewhere."""
        return HttpResponseRedirect("/elsewhere/")

    @action(detail=False)
    def busy(self, request: Request, **_: Any) -> Response:
        """Says itself that it cannot."""
        return Response({"detail": "Later."}, status=status.HTTP_503_SERVICE_UNAVAILABLE)

    @action(detail=False)
    def suspicious(self, request: Request, **_: Any) -> Response:
        """Refuses as Django does."""
        raise SuspiciousOperation("secret detail")

    @action(detail=False)
    def version(self, request: Request, **_: Any) -> Response:
        """The version of the route."""
        return Response({"version": request.version, "path": request.path})

    @extend_schema(
        parameters=[
            OpenApiParameter("filter[state]", required=True),
            OpenApiParameter("page[size]", int),
            OpenApiParameter("page_size", int),
            OpenApiParameter("größe", str, many=True, explode=False),
        ]
    )
    @action(detail=False)
    def find(self, request: Request, **_: Any) -> Response:
        """Has query parameters by names that clients refuse."""
        return Response(request.query_params.dict())

    @version.mapping.delete
    def forget(self, request: Request, **_: Any) -> Response:
        """Has the path of another action."""
        return Response(status=status.HTTP_204_NO_CONTENT)


@pytest.fixture(autouse=True)
def _alone(settings: Any) -> Any:
    urls = ModuleType("urls")
    router = DefaultRouter()
    router.register("unusual", UnusualViewSet, basename="unusual")
    urls.urlpatterns = [path("api/<str:version>/", include(router.urls))]  # type: ignore[attr-defined]
    settings.ROOT_URLCONF = urls
    settings.ALLOWED_HOSTS = [".acme.example"]
    with registry.isolated():
        yield


def _call(name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    expose.viewset(UnusualViewSet, actions=[name], prefix="it", url={"version": "v2"})
    return call_tool(f"it_{name}", arguments)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("add", {"body": [1, 2]}, {"result": 3}),
        ("line", {"pk": "7", "body": {"pk": 8}}, {"path": "7", "body": {"pk": 8}}),
        ("form", {"pk": 1, "words": ["a", "b"]}, {"pk": ["1"], "words": ["a", "b"]}),
        (
            "find",
            {"filter_state": "draft", "page_size_2": 3, "page_size": 4, "groe": ["a", "b"]},
            {"filter[state]": "draft", "page[size]": "3", "page_size": "4", "größe": "a,b"},
        ),
        ("version", {}, {"version": "v2", "path": "/api/v2/unusual/version/"}),
    ],
)
def test_arguments_reach_the_view_in_body_path_and_query(name: str, arguments: Any, expected: Any) -> None:
    assert _call(name, arguments)["structuredContent"] == expected


@pytest.mark.requirement("TOOL-25")
@pytest.mark.parametrize(
    ("content", "kind", "shown"),
    [
        (FOR_MODELS["image/png"], "image/png", "image image/png"),
        (FOR_MODELS["image/gif"], "image/gif; x=y", "image image/gif"),
        (AUDIO["audio/wav"], "audio/x-wav", "audio audio/wav"),
        (SVG, "image/svg+xml", "resource image/svg+xml http://acme.example/api/v2/unusual/picture/"),
        (b"", "image/png", "the image is empty"),
        (HTML, "image/png", "the bytes are text/html"),
        (FOR_MODELS["image/png"][:-1], "image/png", "cut off"),
    ],
)
def test_media_response_becomes_a_media_block(
    monkeypatch: pytest.MonkeyPatch, content: bytes, kind: str, shown: str
) -> None:
    monkeypatch.setitem(PICTURE, "content", content)
    monkeypatch.setitem(PICTURE, "content_type", kind)
    result = _call("picture")
    (block,) = result["content"]
    if result.get("isError"):
        assert shown in block["text"]
    else:
        found = block.get("resource", block)
        words = [block["type"], found["mimeType"], found.get("uri", "")]
        assert " ".join(words).strip() == shown


@pytest.mark.parametrize(
    ("name", "code", "is_error", "text"),
    [
        ("away", 302, False, "302 Found: /elsewhere/"),
        ("forget", 204, False, "204 No Content"),
        ("busy", 503, True, '503 Service Unavailable: {"detail":"Later."}'),
        ("suspicious", 400, True, "400 Bad Request"),
    ],
)
def test_response_status_is_returned(name: str, code: int, is_error: bool, text: str) -> None:
    result = _call(name)
    assert result["_meta"] == {STATUS: code}
    assert bool(result.get("isError")) is is_error
    assert result["content"][0]["text"] == text


def test_file_response_becomes_an_embedded_resource() -> None:
    (block,) = _call("download")["content"]
    assert block["resource"] == {
        "uri": "http://acme.example/api/v2/unusual/download/",
        "mimeType": "application/x-acme",
        "blob": "AAE=",
    }


def test_action_that_accepts_only_files_is_refused() -> None:
    expose.viewset(UnusualViewSet, actions=["upload"], prefix="it", url={"version": "v2"})
    with pytest.raises(DefinitionError, match=r"upload: .*multipart/form-data, and no JSON"):
        registry.tools["it_upload"].read()


def test_route_with_unfilled_variables_is_an_incident_with_a_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    expose.viewset(UnusualViewSet, actions=["busy"], prefix="it")
    assert "incident" in call_tool("it_busy")["content"][0]["text"]
    assert "its route has version: give expose.viewset url=" in caplog.text


def test_custom_lookup_field_is_an_argument(shop: dict[str, Any]) -> None:
    class Named(mixins.RetrieveModelMixin, CustomerViewSet):
        lookup_field = "name"
        lookup_url_kwarg = "customer"

    expose.viewset(Named, actions=["retrieve"])
    customer = Customer.objects.get(pk=1)
    found = call_tool("named_retrieve", {"customer": customer.name})["structuredContent"]
    assert found == {"id": 1, "name": customer.name}
    for wrong in ("a/b", "a.b", "nobody", ""):
        assert call_tool("named_retrieve", {"customer": wrong})["_meta"] == {STATUS: 404}


def test_extend_schema_is_read_with_any_schema_class(settings: Any) -> None:
    for inspector in ("drf_spectacular.openapi.AutoSchema", "rest_framework.schemas.openapi.AutoSchema"):
        settings.REST_FRAMEWORK = {"DEFAULT_SCHEMA_CLASS": inspector}

        @extend_schema_view(create=extend_schema(description="Makes a line.", request=Line))
        class Described(viewsets.ViewSet):
            permission_classes = (AllowAny,)

            def create(self, request: Request) -> Response:
                return Response(request.data)

        with registry.isolated():
            expose.viewset(Described, actions=["create"], prefix="lines")
            wire = registry.tools["lines_create"].read().wire
        assert wire["description"] == "Create one of lines. Makes a line."
        assert wire["inputSchema"]["required"] == ["pk"]
        assert set(wire["inputSchema"]["properties"]) == {"pk", "words"}


def test_parameter_with_a_refused_name_is_renamed_in_the_schema() -> None:
    expose.viewset(UnusualViewSet, actions=["find"], prefix="it", url={"version": "v2"})
    wire = registry.tools["it_find"].read().wire
    assert set(wire["inputSchema"]["properties"]) == {"filter_state", "page_size_2", "page_size", "groe"}
    assert wire["inputSchema"]["required"] == ["filter_state"]
    assert refusals(wire) == []
    refused = call_tool("it_find", {"filter[state]": "draft"})
    assert refused["isError"]
