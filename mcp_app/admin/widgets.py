"""Form fields that Django lacks: JSON with an editor and precise errors, permissions, uploads."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import FILE_CLASSES, HAS_UNFOLD, Select, Textarea
from mcp_app.auth.membership import memberships
from mcp_app.catalogue.schemas.strict_json import MAX_JSON_CHARACTERS, parse_json
from mcp_app.interface.text import marked
from mcp_app.protocol.scopes import ALL, words_of


class JsonWidget(Textarea):
    """A text area that a script turns into a JSON editor."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__({"rows": 10, "spellcheck": "false", **(attrs or {})})

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        """Wrap the text area in an element for the editor."""
        attrs = dict(attrs or {})
        if apps.is_installed("django_svelte_jsoneditor"):
            attrs["data-json-editor"] = static("django_svelte_jsoneditor/js/svelte_jsoneditor.js")
        return format_html(
            '<div class="mcp-json-field">{}</div>', super().render(name, value, attrs, renderer)
        )

    @property
    def media(self) -> forms.Media:
        """Script and style of the editor."""
        scripts: list[Any] = [forms.Script("mcp_app/json_editor.js", type="module")]
        return forms.Media(css={"all": ["mcp_app/admin.css"]}, js=scripts)


class ArgumentsWidget(JsonWidget):
    """The arguments of a prompt: rows built by a script, or JSON."""

    def __init__(self) -> None:
        super().__init__({"data-argument-rows": ""})

    @property
    def media(self) -> forms.Media:
        """Scripts of the rows and the editor."""
        return super().media + forms.Media(js=["mcp_app/argument_rows.js"])


class JsonField(forms.JSONField):
    """JSON typed by a person: errors name line and column, and values fit every database."""

    widget = JsonWidget

    def __init__(self, *, shape: type[Any] | None = None, **kwargs: Any) -> None:
        """Require values of type ``shape`` (list or dict), which is also the value of an empty field."""
        super().__init__(**kwargs)
        self.shape = shape

    def to_python(self, value: Any) -> Any:
        """Return the parsed value. Raises ValidationError with the position of the first error."""
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
        """Return the typed text, even if it is not JSON, to show it beside the error."""
        if data is None:
            return None
        try:
            return parse_json(data)
        except ValidationError:
            return InvalidJSONInput(data)

    def prepare_value(self, value: Any) -> str:
        """Return indented JSON for the editor."""
        if isinstance(value, InvalidJSONInput):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False)


def _permission_choices(current: str) -> list[tuple[str, Any]]:
    groups: dict[str, list[tuple[str, str]]] = {}
    rows = Permission.objects.select_related("content_type").order_by("content_type__app_label", "codename")
    for row in rows:
        app = row.content_type.app_label
        groups.setdefault(app, []).append((f"{app}.{row.codename}", f"{app}.{row.codename}"))
    teams = [*Group.objects.order_by("name")]
    names = memberships(teams)
    members = [
        (current if current in names[team.pk] else names[team.pk][0], f"members of {marked(team.name)}")
        for team in teams
    ]
    known = {name for each in names.values() for name in each}
    others = [
        (f"Permissions of {app}", [row for row in named if row[0] not in known])
        for app, named in groups.items()
    ]
    return [("", "every caller"), ("Members of a group", members), *others]


class PermissionField(forms.ChoiceField):
    """A choice of a group's members, an existing permission, or none."""

    def __init__(self, *, current: str = "", **kwargs: Any) -> None:
        # Keep an unknown permission from code selectable: saving would drop it otherwise.
        choices = _permission_choices(current)
        known = {value for _, group in choices if isinstance(group, list) for value, _ in group}
        if current and current not in known:
            choices.insert(1, (current, f"{current} (does not exist)"))
        super().__init__(choices=choices, required=False, widget=Select(), **kwargs)

    def to_python(self, value: Any) -> str:
        """Return the permission.

        A group added in the popup is submitted by its number.
        """
        text = str(super().to_python(value))
        is_number = text.isascii() and text.isdecimal() and len(text) < 10
        group = Group.objects.filter(pk=int(text)).first() if is_number else None
        return memberships([group])[group.pk][0] if group is not None else text

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return the parsed permission, so that a form with errors shows it selected."""
        return self.to_python(data)


class ScopesField(forms.MultipleChoiceField):
    """A choice of scopes of a credential, required by default; ``user`` describes the credential's user."""

    def __init__(self, *, user: str, **kwargs: Any) -> None:
        words = words_of(user)
        choices = [(scope, format_html("<code>{}</code> {}", scope, words[scope])) for scope in ALL]
        super().__init__(choices=choices, widget=forms.CheckboxSelectMultiple, **kwargs)


class UploadWidget(forms.FileInput):
    """A file input without a link to the stored file: uploads are only served to MCP clients."""

    # Unfold's script writes the file name into a text field of Unfold's template.
    template_name = (
        "unfold/widgets/clearable_file_input_small.html" if HAS_UNFOLD else forms.FileInput.template_name
    )

    def __init__(self) -> None:
        super().__init__({} if HAS_UNFOLD else {"class": "mcp-input"})

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        """Add the CSS classes of Unfold's file inputs."""
        context = super().get_context(name, value, attrs)
        context["widget"]["file_wrapper_class"] = " ".join(FILE_CLASSES)
        return context
