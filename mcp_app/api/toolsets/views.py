"""Views of toolsets. They write through the same services as the admin."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app.api.base import ApiViewSet, InputSerializer
from mcp_app.api.entry_fields import ChangeShown
from mcp_app.api.filtering import ToolsetFilter
from mcp_app.api.formats import RowSerializer
from mcp_app.api.openapi import described
from mcp_app.api.permissions import RequiredPermissions, seeing
from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.snapshots.toolsets import path_of
from mcp_app.catalogue.toolsets.contents import contents_of
from mcp_app.catalogue.toolsets.groups import names_of
from mcp_app.catalogue.toolsets.section import stored_values
from mcp_app.catalogue.toolsets.services import delete_toolset, save_toolset
from mcp_app.models import Toolset


class ToolsetShown(RowSerializer[Toolset]):
    """A toolset. `entries` are the members that it offers now."""

    groups = serializers.SerializerMethodField(help_text="The groups whose members can use it.")
    path = serializers.SerializerMethodField(help_text="The path of its address.")
    entries = serializers.SerializerMethodField(help_text="Its entries with their sizes in tokens.")
    tokens = serializers.SerializerMethodField(help_text="The estimated tokens of all its lists.")
    updated_by: Any = serializers.StringRelatedField()

    class Meta:
        model = Toolset
        fields: Any = (
            "slug", "title", "instructions", "enabled", "is_default", "searches", "audience", "groups",
            "members", "rules", "path", "tokens", "entries", "created_at", "updated_at", "updated_by",
        )  # fmt: skip

    def get_groups(self, row: Toolset) -> list[str]:
        return names_of(row.permissions)

    def get_path(self, row: Toolset) -> str:
        return path_of(row.slug)

    def get_entries(self, row: Toolset) -> list[dict[str, Any]]:
        members = contents_of(row).members
        return [{"kind": each.kind, "key": each.key, "tokens": each.tokens} for each in members]

    def get_tokens(self, row: Toolset) -> int:
        return contents_of(row).tokens


class ToolsetInput(InputSerializer):
    """The values of a toolset. Missing values are not changed."""

    title = serializers.CharField(max_length=200, required=False, allow_blank=True)
    instructions = serializers.CharField(required=False, allow_blank=True)
    enabled = serializers.BooleanField(required=False)
    is_default = serializers.BooleanField(required=False, help_text="Serve it at `/mcp`.")
    searches = serializers.BooleanField(required=False, help_text="Search instead of a list of tools.")
    audience: Any = serializers.ChoiceField(choices=Toolset.Audience.choices, required=False)
    groups = serializers.ListField(child=serializers.CharField(), required=False)
    members = serializers.ListField(
        child=serializers.JSONField(),
        required=False,
        help_text="Objects with `kind` and `key`, and with `title`, `description` and `fixed_arguments` that "
        "apply in this toolset only. With `excluded`, the entry is not a member, even if a rule matches it.",
    )
    rules = serializers.ListField(
        child=serializers.JSONField(),
        required=False,
        help_text="Objects with one or more of `kind`, `tag`, `prefix` and `source`.",
    )


class NewToolsetInput(ToolsetInput):
    """A new toolset."""

    slug = serializers.CharField(max_length=50)


def _to(verb: str) -> RequiredPermissions:
    return RequiredPermissions((f"{verb}_toolset", "publish_entries"), every=True)


class ToolsetViews(ApiViewSet):
    """Toolsets: parts of the catalogue at separate addresses."""

    queryset = Toolset.objects.select_related("updated_by")
    serializer_class = ToolsetShown
    filters = ToolsetFilter
    order = "slug"
    lookup_field = "slug"
    lookup_value_converter = "slug"
    needs = {
        "list": seeing("toolset"),
        "retrieve": seeing("toolset"),
        "history": seeing("toolset"),
        "create": _to("add"),
        "partial_update": _to("change"),
        "destroy": _to("delete"),
    }

    def list(self, request: Request) -> Response:
        """List all toolsets."""
        return self.page(self.get_queryset())

    def retrieve(self, request: Request, slug: str) -> Response:
        """Retrieve a toolset."""
        return Response(self.get_serializer(self.get_object()).data)

    @described(request=NewToolsetInput, responses={201: ToolsetShown})
    def create(self, request: Request) -> Response:
        """Add a toolset.

        Its address is available at once.
        """
        row = save_toolset(actor=request.user, **_values(NewToolsetInput, request))
        return Response(self.get_serializer(row).data, status=201)

    @described(request=ToolsetInput, responses=ToolsetShown)
    def partial_update(self, request: Request, slug: str) -> Response:
        """Change a toolset.

        Clients whose lists change are notified.
        """
        row = save_toolset(actor=request.user, toolset=self.get_object(), **_values(ToolsetInput, request))
        return Response(self.get_serializer(row).data)

    def destroy(self, request: Request, slug: str) -> Response:
        """Delete a toolset.

        Its streams end. The slug is not available for another toolset for 90 days.
        """
        delete_toolset(toolset=self.get_object(), actor=request.user)
        return Response(status=204)

    @described(responses=ChangeShown(many=True))
    @action(detail=True, pagination_class=ApiViewSet.pagination_class)
    def history(self, request: Request, slug: str) -> Response:
        """List all changes to a toolset.

        Returns the changes newest first.
        """
        row = self.get_object()
        self.order = "-id"
        rows = revisions.history_of(Toolset.KIND, row.slug, row.pk)
        return self.page(rows.select_related("actor"), ChangeShown)


def _values(form: type[InputSerializer], request: Request) -> dict[str, Any]:
    given = form(data=request.data)
    given.is_valid(raise_exception=True)
    return stored_values(dict(given.validated_data))
