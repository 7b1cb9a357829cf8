"""Views of upstream servers: settings, reading of their lists, and import."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app.api.base import ApiView, ApiViewSet
from mcp_app.api.filtering import UpstreamFilter
from mcp_app.api.openapi import described
from mcp_app.api.permissions import PUBLIC, seeing, to
from mcp_app.api.upstreams.bodies import (
    ConnectionShown,
    NewUpstreamInput,
    ToolsImported,
    ToolsInput,
    ToolsRead,
    UpstreamInput,
    UpstreamShown,
)
from mcp_app.catalogue.sources.upstream.kinds import KINDS, TEMPLATES
from mcp_app.catalogue.upstreams import importing, refreshing, storing
from mcp_app.connections.services import end
from mcp_app.models import Upstream, UserConnection
from mcp_app.protocol.client.faults import UpstreamFault


class UpstreamViews(ApiViewSet):
    """Other MCP servers whose tools, prompts and resources are offered here."""

    queryset = Upstream.objects.all()
    serializer_class = UpstreamShown
    filters = UpstreamFilter
    lookup_field = "name"
    lookup_value_converter = "slug"
    needs = {
        "list": seeing("upstream"),
        "retrieve": seeing("upstream"),
        "create": to("add_upstream"),
        "partial_update": to("change_upstream"),
        "destroy": to("delete_upstream", "delete_tool"),
        "refresh": to("change_upstream", "change_tool"),
        "tools": to("change_upstream", "add_tool"),
    }

    def list(self, request: Request) -> Response:
        """List all upstream servers."""
        return self.page(self.get_queryset())

    def retrieve(self, request: Request, name: str) -> Response:
        """Retrieve an upstream server."""
        return Response(self.get_serializer(self.get_object()).data)

    @described(request=NewUpstreamInput, responses={201: UpstreamShown})
    def create(self, request: Request) -> Response:
        """Add an upstream server.

        Its lists are not read yet: call `refresh` next.
        """
        given = NewUpstreamInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = storing.save_upstream(actor=request.user, **given.validated_data)
        return Response(self.get_serializer(row).data, status=201)

    @described(request=UpstreamInput, responses=UpstreamShown)
    def partial_update(self, request: Request, name: str) -> Response:
        """Change an upstream server.

        The address cannot change while entries of the server are published or drafts.
        """
        given = UpstreamInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = storing.save_upstream(actor=request.user, upstream=self.get_object(), **given.validated_data)
        return Response(self.get_serializer(row).data)

    def destroy(self, request: Request, name: str) -> Response:
        """Delete an upstream server.

        Its entries and drafts are deleted with it.
        """
        storing.delete_upstream(upstream=self.get_object(), actor=request.user)
        return Response(status=204)

    @described(request=None, responses=ToolsRead)
    @action(detail=True, methods=["post"])
    def refresh(self, request: Request, name: str) -> Response:
        """Read the lists of an upstream server.

        Changes of published entries become drafts. If the lists cannot be read, `problem` has the reason and
        nothing changes.
        """
        problem = ""
        try:
            done = refreshing.refresh(upstream=self.get_object(), actor=request.user)
        except UpstreamFault as fault:
            done, problem = refreshing.Refreshed(), f"The server {name} {fault}"
        counts = {"templates" if kind is TEMPLATES else kind.member: done.number(kind) for kind in KINDS}
        told = {**counts, "drafts": done.drafts, "gone": done.gone, "skipped": done.skipped}
        return Response({"problem": problem, **told})

    @described(request=ToolsInput, responses={201: ToolsImported})
    @action(detail=True, methods=["post"])
    def tools(self, request: Request, name: str) -> Response:
        """Import tools, prompts, resources and templates of an upstream server.

        Each becomes a draft, which is published in the admin.
        """
        given = ToolsInput(data=request.data)
        given.is_valid(raise_exception=True)
        keys, names = given.validated_data["tools"], given.validated_data.get("names")
        done = importing.import_items(upstream=self.get_object(), keys=keys, names=names, actor=request.user)
        return Response({"drafts": done.drafts, "skipped": done.skipped}, status=201)


class OwnConnections(ApiView):
    """The accounts of the caller at upstream servers. They are connected on the page "My connections"."""

    needs = {"get": PUBLIC}

    @described(responses=ConnectionShown(many=True))
    def get(self, request: Request) -> Response:
        """List your connections to upstream servers."""
        rows = _own(request).select_related("upstream", "client").defer("upstream__listed")
        return Response(ConnectionShown(rows, many=True).data)


class OwnConnection(ApiView):
    """The account of the caller at one upstream server."""

    needs = {"delete": PUBLIC}

    @described(request=None, responses={204: None})
    def delete(self, request: Request, server: str) -> Response:
        """End your connection to an upstream server.

        The response is the same if there is none.
        """
        rows = _own(request).filter(upstream__name=server).select_related("upstream", "user")
        end(connections=rows, actor=request.user)
        return Response(status=204)


def _own(request: Request) -> QuerySet[UserConnection]:
    user: Any = request.user
    return UserConnection.objects.filter(user=user)
