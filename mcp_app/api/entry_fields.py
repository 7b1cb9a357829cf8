"""Serializers of catalogue entries. Their fields are those of a catalogue file."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from rest_framework import serializers

from mcp_app.api.formats import RowSerializer
from mcp_app.catalogue.changes.row_checks import permission_exists
from mcp_app.catalogue.sources.base import APPEARANCE, LIMITS
from mcp_app.catalogue.sources.lookup import own_fields, source_of
from mcp_app.catalogue.transfer.fields import read_value, service_values
from mcp_app.models import CatalogueChange, Prompt, Resource, ResourceTemplate, Tool

FACTS = ("source", "definition", "code_path", "missing", "drifted", "created_at", "updated_at", "updated_by")


class ToolShown(RowSerializer[Tool]):
    """A tool. `preset_of` is the tool of a preset."""

    preset_of: Any = serializers.SlugRelatedField(slug_field="name", read_only=True)
    drifted = serializers.BooleanField(read_only=True)
    updated_by: Any = serializers.StringRelatedField()

    class Meta:
        model = Tool
        shapes = ("input_schema", "output_schema", "annotations")
        # Some sources have the shapes as own fields.
        fields = tuple(dict.fromkeys(("id", *own_fields(Tool), *APPEARANCE, *LIMITS, *shapes, *FACTS)))


class PromptShown(RowSerializer[Prompt]):
    """A prompt."""

    warnings: Any = serializers.SerializerMethodField(
        help_text="Probable mistakes, by field. They do not prevent saving."
    )
    drifted = serializers.BooleanField(read_only=True)
    updated_by: Any = serializers.StringRelatedField()

    class Meta:
        model = Prompt
        fields = ("id", *own_fields(Prompt), *APPEARANCE, *FACTS, "warnings")

    def get_warnings(self, prompt: Prompt) -> dict[str, list[str]]:
        return source_of(prompt).warnings(prompt)


class ResourceShown(RowSerializer[Resource]):
    """A resource."""

    file = serializers.SerializerMethodField(help_text="The name of the uploaded file.")
    drifted = serializers.BooleanField(read_only=True)
    updated_by: Any = serializers.StringRelatedField()

    class Meta:
        model = Resource
        fields = ("id", *own_fields(Resource), *APPEARANCE, *FACTS)

    def get_file(self, resource: Resource) -> str | None:
        return PurePath(str(resource.file.name)).name if resource.file else None


class TemplateShown(RowSerializer[ResourceTemplate]):
    """A resource template."""

    drifted = serializers.BooleanField(read_only=True)
    updated_by: Any = serializers.StringRelatedField()

    class Meta:
        model = ResourceTemplate
        fields = ("id", "uri_template", "name", "mime_type", "annotations", *APPEARANCE, *FACTS)


class ChangeShown(RowSerializer[CatalogueChange]):
    """A change to an entry, with its values before and after."""

    actor: Any = serializers.StringRelatedField()

    class Meta:
        model = CatalogueChange
        fields = ("id", "revision", "action", "at", "actor", "before", "after")


class UploadInput(serializers.Serializer[Any]):
    """A file, encoded as in a catalogue file."""

    name = serializers.CharField()
    base64 = serializers.CharField()


class EntryInput(RowSerializer[Any]):
    """Values for a service, which validates them. JSON types are not converted."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the values for the service. Raises ValidationError with messages per field."""
        if not isinstance(data, dict):
            raise serializers.ValidationError({"non_field_errors": ["The body must be an object."]})
        values: dict[str, Any] = {}
        errors: dict[str, list[str]] = {}
        for name, value in data.items():
            try:
                values[name] = self._value(name, value)
            except ValueError as error:
                errors[name] = [str(error)]
        if errors:
            raise serializers.ValidationError(errors)
        named = Tool.objects.filter(name=values.get("preset_of") or "")
        return service_values(values, {tool.name: tool for tool in named})

    def _value(self, name: str, given: Any) -> Any:
        model: type[Any] = self.Meta.model
        if name not in self.fields:
            raise ValueError(f"Unknown field. Known fields: {', '.join(self.fields)}.")
        value = read_value(model, name, given)
        if self.instance is not None and value == getattr(self.instance, name, None):
            return value
        if name == model.KEY and self.instance is not None:
            raise ValueError("This identifies the entry to clients and cannot be changed.")
        if name == "permission" and "." in value and not permission_exists(value):
            raise ValueError(f"The permission {value!r} does not exist.")
        if name == "preset_of" and value is not None and not Tool.objects.filter(name=value).exists():
            raise ValueError(f"The tool {value!r} does not exist.")
        return value

    def get_validators(self) -> list[Any]:
        """Return no validators, because the services validate the values."""
        return []


class ToolInput(EntryInput):
    """A preset, or the editable fields of another tool."""

    preset_of: Any = serializers.CharField(help_text="The name of the tool that the preset calls.")

    class Meta:
        model = Tool
        fields = (*own_fields(Tool), *APPEARANCE, *LIMITS)


class PromptInput(EntryInput):
    """A prompt, or the editable fields of a prompt from code."""

    class Meta:
        model = Prompt
        fields = (*own_fields(Prompt), *APPEARANCE)


class ResourceInput(EntryInput):
    """A text or an uploaded file, or the editable fields of a resource from code."""

    file = UploadInput(required=False, allow_null=True)

    class Meta:
        model = Resource
        fields = (*own_fields(Resource), *APPEARANCE)


class TemplateInput(EntryInput):
    """The editable fields of a template."""

    class Meta:
        model = ResourceTemplate
        fields = APPEARANCE
