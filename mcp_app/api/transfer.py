"""Views for export and import of the catalogue as one file. An import can be a dry run."""

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
    """The format of the file."""

    notation = serializers.ChoiceField(choices=NOTATIONS, default="json")


class ImportQuery(serializers.Serializer[Any]):
    """The options of an import."""

    dry_run = serializers.BooleanField(default=False, help_text="The changes are returned and not applied.")
    prune = serializers.BooleanField(
        default=False,
        help_text="Also delete administrators' entries absent from the file, and reset entries from code.",
    )
    at_revision = serializers.IntegerField(
        required=False,
        min_value=0,
        help_text="The expected revision of the catalogue; 409 if it differs.",
    )


class FieldShown(serializers.Serializer[Any]):
    """A field with its values before and after."""

    name = serializers.CharField()
    old = serializers.JSONField()
    new = serializers.JSONField()


class DifferenceShown(serializers.Serializer[Any]):
    """An entry that is added, changed or removed."""

    action = serializers.ChoiceField(choices=["added", "changed", "removed"])
    kind = serializers.CharField()
    key = serializers.CharField()
    fields: Any = FieldShown(many=True)
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="Probable mistakes, which do not prevent the import."
    )


class ImportedShown(serializers.Serializer[Any]):
    """The result of an import or a dry run."""

    dry_run = serializers.BooleanField()
    revision = serializers.IntegerField(help_text="The new revision, 0 if nothing was stored.")
    planned_at = serializers.IntegerField(help_text="The revision that the file was compared with.")
    counted = serializers.DictField(child=serializers.IntegerField())
    missing_permissions = serializers.ListField(child=serializers.CharField())
    text = serializers.ListField(child=serializers.CharField(), help_text="The differences as text.")
    differences = DifferenceShown(many=True)


class Export(ApiView):
    """Export of the catalogue."""

    needs = {"get": SEE_ALL}

    @described(
        parameters=[ExportQuery],
        responses={
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, "application/yaml"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> HttpResponse:
        """Export the catalogue.

        Returns the same file as `manage.py mcp_export`.
        """
        notation = asked(ExportQuery, request).validated_data["notation"]
        return HttpResponse(
            export_catalogue(notation),
            content_type=f"application/{notation}; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="catalogue.{notation}"'},
        )


class Import(ApiView):
    """Import of a catalogue file."""

    needs = {"post": SEE_ALL}
    parser_classes = (JsonFileParser, YamlFileParser)

    @described(
        parameters=[ImportQuery],
        request={"application/json": OpenApiTypes.OBJECT, "application/yaml": OpenApiTypes.STR},
        responses=ImportedShown,
    )
    def post(self, request: Request) -> Response:
        """Import a catalogue file.

        Applies the whole file as one revision, or nothing. Also requires the permissions to add, change or
        delete each kind of entry that the file adds, changes or, with `prune`, deletes.
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
                "warnings": [*each.warnings],
            }
            for each in imported.differences
        ],
    }
    return shown
