"""Export and import of the catalogue as one file, with a dry run."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app.api.base import ApiView
from mcp_app.api.filtering import asked
from mcp_app.api.formats import JsonFileParser, YamlFileParser
from mcp_app.api.openapi import described
from mcp_app.api.permissions import RequiredPermissions
from mcp_app.catalogue.transfer import NOTATIONS, Imported, export_catalogue, import_catalogue
from mcp_app.catalogue.transfer.permissions import SEEN, needed
from mcp_app.catalogue.transfer.report import difference_lines

SEE_ALL = RequiredPermissions(tuple(name.partition(".")[2] for name in SEEN), every=True)


class ExportQuery(serializers.Serializer[Any]):
    """How to write the file."""

    notation = serializers.ChoiceField(choices=NOTATIONS, default="json")


class ImportQuery(serializers.Serializer[Any]):
    """How to take the file."""

    dry_run = serializers.BooleanField(default=False, help_text="Say what would change, change nothing.")
    prune = serializers.BooleanField(
        default=False, help_text="Also delete admin entries that the file lacks, and undo changes of code's."
    )
    at_revision = serializers.IntegerField(
        required=False, min_value=0, help_text="Refuse (409) unless this is the catalogue's revision."
    )


class FieldShown(serializers.Serializer[Any]):
    """One field before and after."""

    name = serializers.CharField()
    old = serializers.JSONField()
    new = serializers.JSONField()


class DifferenceShown(serializers.Serializer[Any]):
    """One entry that is made, changed or deleted."""

    action = serializers.ChoiceField(choices=["added", "changed", "removed"])
    kind = serializers.CharField()
    key = serializers.CharField()
    fields: Any = FieldShown(many=True)


class ImportedShown(serializers.Serializer[Any]):
    """What an import did, or would do."""

    dry_run = serializers.BooleanField()
    revision = serializers.IntegerField(help_text="What it was stored as; 0 when nothing was.")
    planned_at = serializers.IntegerField(help_text="The revision the file was compared with.")
    counted = serializers.DictField(child=serializers.IntegerField())
    missing_permissions = serializers.ListField(child=serializers.CharField())
    text = serializers.ListField(child=serializers.CharField(), help_text="The differences, for people.")
    differences = DifferenceShown(many=True)


class Export(ApiView):
    """The catalogue as administrators edit it."""

    needs = {"get": SEE_ALL}

    @described(
        parameters=[ExportQuery],
        responses={
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, "application/yaml"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> HttpResponse:
        """A catalogue file, as `manage.py mcp_export` writes it."""
        notation = asked(ExportQuery, request).validated_data["notation"]
        return HttpResponse(
            export_catalogue(notation),
            content_type=f"application/{notation}; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="catalogue.{notation}"'},
        )


class Import(ApiView):
    """Brings the catalogue to what a file says."""

    needs = {"post": SEE_ALL}
    parser_classes = (JsonFileParser, YamlFileParser)

    @described(
        parameters=[ImportQuery],
        request={"application/json": OpenApiTypes.OBJECT, "application/yaml": OpenApiTypes.STR},
        responses=ImportedShown,
    )
    def post(self, request: Request) -> Response:
        """All of the file as one revision, or nothing.

        Needs besides: to add, change or delete each kind of entry of which the file adds, changes or, with
        `prune`, deletes one.
        """
        how = asked(ImportQuery, request).validated_data
        file: Any = request.data
        if not hasattr(file, "notation"):
            raise serializers.ValidationError({"": ["The body must be a catalogue file."]})
        imported = import_catalogue(
            file.content, file.notation, actor=request.user, may=request.user.has_perm, **how
        )
        return Response(_shown(imported, how["dry_run"], request.user))


def _shown(imported: Imported, dry_run: bool, user: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "dry_run": dry_run,
        "revision": imported.revision,
        "planned_at": imported.planned_at,
        "counted": imported.counted(),
        "missing_permissions": [name for name in needed(imported.differences) if not user.has_perm(name)],
        "text": list(difference_lines(imported.differences)),
        "differences": [
            {
                "action": each.action,
                "kind": each.kind,
                "key": each.key,
                "fields": [{"name": one.name, "old": one.old, "new": one.new} for one in each.fields],
            }
            for each in imported.differences
        ],
    }
    return shown
