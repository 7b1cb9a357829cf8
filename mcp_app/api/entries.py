"""Views of the catalogue. They write through the same services as the admin."""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from drf_spectacular.utils import OpenApiParameter
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app.api.base import ApiViewSet
from mcp_app.api.entry_fields import (
    ChangeShown,
    PromptInput,
    PromptShown,
    ResourceInput,
    ResourceShown,
    TemplateInput,
    TemplateShown,
    ToolInput,
    ToolShown,
)
from mcp_app.api.filtering import ResourceFilter, TemplateFilter, ToolFilter
from mcp_app.api.openapi import described
from mcp_app.api.permissions import RequiredPermissions, seeing, to
from mcp_app.api.problems import StateConflict
from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.changes.services import (
    accept_definition,
    delete_entry,
    save_entry,
    set_enabled,
    update_entry,
)
from mcp_app.catalogue.sources.lookup import made_here, named, source_of
from mcp_app.models import CatalogueChange, Prompt, Resource, ResourceTemplate, Tool


def _needs(model: str) -> dict[str, RequiredPermissions]:
    change = RequiredPermissions((f"change_{model}", "publish_entries"), every=True)
    return {
        "list": seeing(model),
        "retrieve": seeing(model),
        "history": seeing(model),
        "create": RequiredPermissions((f"add_{model}", "publish_entries"), every=True),
        "partial_update": change,
        "enable": change,
        "disable": change,
        # A review needs no permission to publish, because it changes nothing for clients.
        "accept": to(f"change_{model}"),
        "destroy": RequiredPermissions((f"delete_{model}", "publish_entries"), every=True),
    }


class EntryViews(ApiViewSet):
    """Base of the views of all kinds of entries."""

    given: ClassVar[Any]
    # In descriptions of operations, they replace "entry" and "entries".
    names: ClassVar[tuple[str, str]]
    order = "id"
    lookup_value_converter = "int"

    def list(self, request: Request) -> Response:
        """List all entries.

        Includes disabled entries.
        """
        return self.page(self.get_queryset())

    def retrieve(self, request: Request, pk: int) -> Response:
        """Retrieve an entry."""
        return Response(self.get_serializer(self.get_object()).data)

    def partial_update(self, request: Request, pk: int) -> Response:
        """Update an entry.

        Fields that the request omits are unchanged.
        """
        entry = self.get_object()
        values = self._given(request, entry)
        return Response(self.get_serializer(self.write(entry, values)).data)

    def write(self, entry: Any, values: dict[str, Any]) -> Any:
        """Store the values through the service for this kind of entry."""
        return update_entry(entry=entry, actor=self.request.user, **values)

    @described(request=None)
    @action(detail=True, methods=["post"])
    def enable(self, request: Request, pk: int) -> Response:
        """Enable an entry.

        Clients can see and use it.
        """
        return self._switch(enabled=True)

    @described(request=None)
    @action(detail=True, methods=["post"])
    def disable(self, request: Request, pk: int) -> Response:
        """Disable an entry.

        Clients can no longer see or use it.
        """
        return self._switch(enabled=False)

    @described(request=None)
    @action(detail=True, methods=["post"])
    def accept(self, request: Request, pk: int) -> Response:
        """Accept the current definition of an entry."""
        entry = self.get_object()
        accept_definition(entry=entry, actor=request.user)
        return Response(self.get_serializer(entry).data)

    @described(responses=ChangeShown(many=True))
    @action(detail=True, pagination_class=ApiViewSet.pagination_class)
    def history(self, request: Request, pk: int) -> Response:
        """List all changes to an entry.

        Returns the changes newest first.
        """
        entry = self.get_object()
        self.order = "-id"
        rows = CatalogueChange.objects.filter(kind=revisions.kind_of(entry), key=revisions.key_of(entry))
        return self.page(rows.select_related("actor"), ChangeShown)

    def _switch(self, *, enabled: bool) -> Response:
        entry = self.get_object()
        set_enabled(entries=[entry], enabled=enabled, actor=self.request.user)
        return self.retrieve(self.request, entry.pk)

    def _given(self, request: Request, entry: Any) -> dict[str, Any]:
        given = self.given(entry, data=request.data, partial=True)
        given.is_valid(raise_exception=True)
        values: dict[str, Any] = given.validated_data
        return values


class TemplateViews(EntryViews):
    """Resource templates, which only code defines."""

    queryset = ResourceTemplate.objects.select_related("updated_by")
    serializer_class = TemplateShown
    given = TemplateInput
    filters = TemplateFilter
    names = ("resource template", "resource templates")
    needs = _needs("resourcetemplate")


class OwnEntryViews(EntryViews):
    """Base of the views of kinds that administrators can create."""

    @described(parameters=[OpenApiParameter("source", str, description="The source of the new entry.")])
    def create(self, request: Request) -> Response:
        """Create an entry."""
        kind, stored = self.get_queryset().model, request.query_params.get("source")
        source = made_here(kind) if stored is None else named(kind, stored)
        entry = save_entry(kind=kind, source=source, actor=request.user, **self._given(request, None))
        return Response(self.get_serializer(entry).data, status=201)

    def write(self, entry: Any, values: dict[str, Any]) -> Any:
        """Store all values of an entry that an administrator created.

        For other entries, store only the values that can be edited.
        """
        if source_of(entry).follows:
            return super().write(entry, values)
        return save_entry(kind=type(entry), entry=entry, actor=self.request.user, **values)

    @described(responses={204: None})
    def destroy(self, request: Request, pk: int) -> Response:
        """Delete an entry.

        Only entries created by administrators, and missing entries, can be deleted.
        Disable other entries instead.
        """
        try:
            delete_entry(entry=self.get_object(), actor=request.user)
        except ValidationError as error:
            raise StateConflict(" ".join(error.messages)) from error
        return Response(status=204)


class ToolViews(OwnEntryViews):
    """Tools. A tool created here is a preset of another tool."""

    queryset = Tool.objects.select_related("updated_by", "preset_of")
    serializer_class = ToolShown
    given = ToolInput
    filters = ToolFilter
    names = ("tool", "tools")
    needs = _needs("tool")


class PromptViews(OwnEntryViews):
    """Prompts. A prompt created here is a text with placeholders."""

    queryset = Prompt.objects.select_related("updated_by")
    serializer_class = PromptShown
    given = PromptInput
    filters = ToolFilter
    names = ("prompt", "prompts")
    needs = _needs("prompt")


class ResourceViews(OwnEntryViews):
    """Resources. A resource created here is a text or an uploaded file."""

    queryset = Resource.objects.select_related("updated_by")
    serializer_class = ResourceShown
    given = ResourceInput
    filters = ResourceFilter
    names = ("resource", "resources")
    needs = _needs("resource")
