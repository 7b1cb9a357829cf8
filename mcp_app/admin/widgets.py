"""Form fields that Django does not have: JSON with an editor and precise errors, permissions, uploads."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import FILE_CLASSES, HAS_UNFOLD, Select, Textarea
from mcp_app.auth.membership import memberships
from mcp_app.catalogue.access import EVERYONE
from mcp_app.catalogue.definitions.tags import tag_of, tags_of
from mcp_app.catalogue.schemas.strict_json import MAX_JSON_CHARACTERS, parse_json
from mcp_app.interface.text import marked
from mcp_app.protocol.scopes import ALL, descriptions_for


class JsonWidget(Textarea):
    """A text area that a script replaces with a JSON editor."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__({"rows": 10, "spellcheck": "false", **(attrs or {})})

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        """Return the text area within an element for the editor."""
        attrs = dict(attrs or {})
        if apps.is_installed("django_svelte_jsoneditor"):
            attrs["data-json-editor"] = static("django_svelte_jsoneditor/js/svelte_jsoneditor.js")
        return format_html(
            '<div class="mcp-json-field">{}</div>', super().render(name, value, attrs, renderer)
        )

    @property
    def media(self) -> forms.Media:
        """The script and style sheet of the editor."""
        scripts: list[Any] = [forms.Script("mcp_app/json_editor.js", type="module")]
        return forms.Media(css={"all": ["mcp_app/admin.css"]}, js=scripts)


class ArgumentsWidget(JsonWidget):
    """The arguments of a prompt as JSON, which a script shows as rows."""

    def __init__(self) -> None:
        super().__init__({"data-argument-rows": ""})

    @property
    def media(self) -> forms.Media:
        """The scripts of the rows and of the editor."""
        return super().media + forms.Media(js=["mcp_app/argument_rows.js"])


class JsonField(forms.JSONField):
    """A JSON value that a person types.

    Errors contain line and column. Values that some supported database cannot store are refused.
    """

    widget = JsonWidget

    def __init__(self, *, shape: type[Any] | None = None, **kwargs: Any) -> None:
        """Build the field.

        ``shape`` (list or dict) is the required type, and its empty value is the default.
        """
        super().__init__(**kwargs)
        self.shape = shape

    def to_python(self, value: Any) -> Any:
        """Return the parsed value. Raises ValidationError with the position of the first syntax error."""
        if self.disabled or not isinstance(value, str):
            return value
        if not value.strip():
            return self.shape() if self.shape else None
        if len(value) > MAX_JSON_CHARACTERS:
            raise ValidationError(f"Too long: at most {MAX_JSON_CHARACTERS} characters.", code="invalid")
        parsed = parse_json(value)
        if self.shape is not None and not isinstance(parsed, self.shape):
            wanted = "a list: [ … ]" if self.shape is list else "an object: { … }"
            raise ValidationError(f"Must be {wanted}", code="invalid")
        return parsed

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return the typed text, even if it is not valid JSON, so that it is shown beside the error."""
        if data is None:
            return None
        try:
            return parse_json(data)
        except ValidationError:
            return InvalidJSONInput(data)

    def prepare_value(self, value: Any) -> str:
        """Return the value as indented JSON for the editor."""
        if isinstance(value, InvalidJSONInput):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False)


class TagsField(forms.CharField):
    """Tags as words that are separated by commas or blanks."""

    def to_python(self, value: Any) -> Any:
        """Return the tags as a sorted list. Capitals and other characters are converted."""
        if isinstance(value, list):
            return value
        words = (super().to_python(value) or "").replace(",", " ").split()
        if unfit := next((word for word in words if not tag_of(word)), ""):
            raise ValidationError(f"{marked(unfit)} needs letters a to z or digits.", code="invalid")
        return tags_of(words)

    def prepare_value(self, value: Any) -> Any:
        """Return tags as text for the input."""
        return ", ".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare as text."""
        return super().has_changed(self.prepare_value(initial), data)


def _permission_choices(current: str) -> list[tuple[str, Any]]:
    groups: dict[str, list[tuple[str, str]]] = {}
    kinds = ("content_type__app_label", "content_type__model", "codename")
    for row in Permission.objects.select_related("content_type").order_by(*kinds):
        name = f"{row.content_type.app_label}.{row.codename}"
        if name == current or is_useful(row):
            groups.setdefault(_objects_of(row), []).append((name, f"{row.name} ({name})"))
    teams = [*Group.objects.order_by("name")]
    names = memberships(teams)
    members = [
        (current if current in names[team.pk] else names[team.pk][0], f"members of {marked(team.name)}")
        for team in teams
    ]
    known = {name for each in names.values() for name in each}
    others = [
        (f"Permissions: {objects}", found)
        for objects, named in groups.items()
        if (found := [row for row in named if row[0] not in known])
    ]
    return [("", EVERYONE), ("Members of a group", members), *others]


def _objects_of(permission: Permission) -> str:
    """Return the name of the objects that a permission is about, or of its app."""
    model = permission.content_type.model_class()
    return marked(permission.content_type.app_label if model is None else model._meta.verbose_name_plural)


def is_useful(permission: Permission) -> bool:
    """Return False for Django's four permissions of a model without pages in the admin."""
    model = permission.content_type.model_class()
    if model is None:
        return True
    standard = {f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions}
    return admin.site.is_registered(model) or permission.codename not in standard


class PermissionField(forms.ChoiceField):
    """A choice between no permission, membership in a group, and an existing permission.

    There are many permissions, so a script adds a search field to the list.
    """

    def __init__(self, *, current: str = "", **kwargs: Any) -> None:
        # An entry may have a permission that does not exist. It stays selectable, because saving would
        # otherwise remove it.
        choices = _permission_choices(current)
        known = {value for _, group in choices if isinstance(group, list) for value, _ in group}
        if current and current not in known:
            choices.insert(1, (current, f"{current} (does not exist)"))
        widget = Select({"data-search": "Search groups and permissions"})
        super().__init__(choices=choices, required=False, widget=widget, **kwargs)

    def to_python(self, value: Any) -> str:
        """Return the permission.

        If the user added a group in the popup, the submitted value is the number of that group.
        """
        text = str(super().to_python(value))
        is_number = text.isascii() and text.isdecimal() and len(text) < 10
        group = Group.objects.filter(pk=int(text)).first() if is_number else None
        return memberships([group])[group.pk][0] if group is not None else text

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return the parsed permission, so that a form with errors shows it as selected."""
        return self.to_python(data)


class ScopesField(forms.MultipleChoiceField):
    """A choice of scopes for a credential.

    At least one is required by default. ``user`` describes whose permissions the scopes limit.
    """

    def __init__(self, *, user: str, **kwargs: Any) -> None:
        words = descriptions_for(user)
        choices = [(scope, format_html("<code>{}</code> {}", scope, words[scope])) for scope in ALL]
        super().__init__(choices=choices, widget=forms.CheckboxSelectMultiple, **kwargs)


class UploadWidget(forms.FileInput):
    """A file input without a link to the stored file, because uploads are served to MCP clients only."""

    # Unfold's script writes the name of the chosen file into a text field that only Unfold's template has.
    template_name = (
        "unfold/widgets/clearable_file_input_small.html" if HAS_UNFOLD else forms.FileInput.template_name
    )

    def __init__(self) -> None:
        super().__init__({} if HAS_UNFOLD else {"class": "mcp-input"})

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        """Return the context with the CSS classes of Unfold's file inputs."""
        context = super().get_context(name, value, attrs)
        context["widget"]["file_wrapper_class"] = " ".join(FILE_CLASSES)
        return context
