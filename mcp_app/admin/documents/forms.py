"""Forms of the pages of OpenAPI documents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from mcp_app.admin.widgets import UploadWidget
from mcp_app.catalogue.documents.fetching import content_of
from mcp_app.catalogue.documents.importing import MAX_TOOLS
from mcp_app.catalogue.sources.http.openapi.names import MAX_NAME
from mcp_app.catalogue.sources.http.openapi.servers import Server, problem_of
from mcp_app.models import ApiDocument

OWN_SERVER = "own"


def read_selection(text: str) -> dict[str, str] | None:
    """Return the entered names by operation key, or None if the text is not a selection."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        return None
    return found


def values_of(data: Mapping[str, Any], number: int, server: Server) -> dict[str, str]:
    """Return the entered values of the variables of a server."""
    return {each.name: str(data.get(f"variable:{number}:{each.name}", "")) for each in server.variables}


class FileForm(forms.Form):
    """A document, by its URL, as a file or as text."""

    url = forms.CharField(
        required=False,
        label="URL",
        max_length=2_000,
        widget=forms.URLInput({"class": "mcp-input", "placeholder": "https://api.example.com/openapi.json"}),
        help_text="The document is fetched now, and again when you check for updates.",
    )
    file = forms.FileField(
        required=False, label="Or a file", widget=UploadWidget(), help_text="JSON or YAML."
    )
    text = forms.CharField(
        required=False,
        strip=False,
        label="Or its text",
        widget=forms.Textarea({"class": "mcp-input mcp-import-text", "rows": 6, "spellcheck": "false"}),
    )

    def clean(self) -> dict[str, Any]:
        """Add ``content``, the bytes of a file or text, to the cleaned data. It is None for a URL."""
        found = self.cleaned_data
        url = (found.get("url") or "").strip()
        content = content_of(url=url, file=found.get("file"), text=found.get("text") or "")
        return {**found, "url": url, "content": content}


class NewDocumentForm(FileForm):
    """A new document, with the prefix of its tools."""

    tool_prefix = forms.CharField(
        required=False,
        max_length=31,
        validators=ApiDocument._meta.get_field("prefix").validators,
        label="Prefix",
        widget=forms.TextInput({"class": "mcp-input", "placeholder": "github"}),
        help_text="Put before each tool name: with github, repos_get becomes github_repos_get.",
    )
    field_order = ("url", "file", "text", "tool_prefix")


class SelectionForm(forms.Form):
    """The chosen operations with their names, the server and the credentials."""

    selection = forms.CharField(max_length=2_000_000)
    server = forms.CharField(max_length=2_000)
    own_server = forms.CharField(required=False, max_length=2_000)
    plain_http = forms.BooleanField(required=False)
    content_types = forms.CharField(required=False, max_length=2_000_000)

    def __init__(self, *args: Any, servers: Sequence[Server] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.servers = servers

    def clean_content_types(self) -> dict[str, str]:
        """Return the chosen content types by operation key."""
        return read_selection(self.cleaned_data["content_types"] or "{}") or {}

    def clean_selection(self) -> dict[str, str]:
        """Return the proposed or entered names by operation key."""
        found = read_selection(self.cleaned_data["selection"])
        if found is None:
            raise ValidationError("The selection cannot be read.")
        if not found:
            raise ValidationError("Select at least one operation.")
        if len(found) > MAX_TOOLS:
            raise ValidationError(f"{len(found)} operations are selected; at most {MAX_TOOLS} are allowed.")
        return {str(key): name.strip()[: 2 * MAX_NAME] for key, name in found.items()}

    def clean(self) -> dict[str, Any]:
        """Set ``server`` to the address to use. An address without encryption needs a confirmation."""
        found = super().clean() or {}
        server = found.get("server", "")
        if server == OWN_SERVER:
            server = (found.get("own_server") or "").strip()
        for number, each in enumerate(self.servers):
            if each.variables and server == each.url:
                try:
                    server = each.filled(values_of(self.data, number, each))
                except ValueError as error:
                    raise ValidationError(f"Server: {error}") from None
                break
        if problem := problem_of(server):
            raise ValidationError(f"Server: {problem}")
        if server.lower().startswith("http:") and not found.get("plain_http"):
            raise ValidationError("Requests over http are not encrypted. Confirm this below, or use https.")
        return {**found, "server": server}
