"""The source of prompts and resources that administrators write or upload."""

from __future__ import annotations

from typing import Final

from mcp_app.catalogue.definitions.definition import Definition, PromptDefinition, ResourceDefinition
from mcp_app.catalogue.sources.base import Adding, Source
from mcp_app.catalogue.sources.checking import Errors
from mcp_app.catalogue.sources.content import static_content
from mcp_app.catalogue.sources.content.checks import check_prompt, check_resource, prompt_warnings
from mcp_app.models import Prompt, Resource, ResourceTemplate
from mcp_app.models.catalogue import Row


class ContentSource(Source):
    """The source of stored texts and files. It also handles resource templates, but cannot create any."""

    stored = label = "admin"
    variety = "made in the admin"
    kinds = (Prompt, Resource, ResourceTemplate)
    tone = "good"
    origin = unserved = ""
    own_fields = {
        Prompt: ("name", "template", "arguments"),
        Resource: ("uri", "name", "mime_type", "text", "file", "annotations"),
    }
    adding = {
        Prompt: Adding("prompt", "A text with placeholders."),
        Resource: Adding("resource", "A text, or an uploaded file."),
    }
    travels = True

    def definition(self, row: Row) -> Definition | None:
        """Return the definition of a row's text or file."""
        if isinstance(row, Prompt):
            return _prompt(row)
        return _resource(row) if isinstance(row, Resource) else None

    def check(self, row: Row, errors: Errors) -> None:
        """Check a text or file before it is stored."""
        if isinstance(row, Prompt):
            check_prompt(row, errors)
        elif isinstance(row, Resource):
            check_resource(row, errors)
        else:
            errors["uri_template"] = ["Resource templates are defined in code."]

    def warnings(self, row: Row) -> Errors:
        """Return the names in single braces in a prompt's text, which are probably placeholders."""
        return prompt_warnings(row) if isinstance(row, Prompt) else {}

    def unavailable(self, kind: type[Row], key: str, row: Row | None) -> str:
        """Return the reason why a catalogue file cannot contain this entry here, or ""."""
        if kind in self.own_fields:
            return ""
        return "Resource templates are defined in code: take it out of the file."


def _prompt(row: Prompt) -> PromptDefinition:
    wire = {"name": row.name, "title": row.name, **({"arguments": row.arguments} if row.arguments else {})}
    return PromptDefinition(name=row.name, wire=wire, code_path="", template=row.template)


def _resource(row: Resource) -> ResourceDefinition:
    mime_type = listed_mime_type(row.mime_type, str(row.file.name or ""), row.uri, row.text)
    if row.file:
        static = static_content.upload_reader(str(row.file.name), mime_type)
    elif _names_file(row.uri, row.text):
        static = static_content.directory_reader(mime_type)
    else:
        static = static_content.text_reader(row.text, mime_type)
    wire = {"uri": row.uri, "name": row.name, "mimeType": mime_type}
    if row.annotations:
        wire["annotations"] = row.annotations
    return ResourceDefinition(
        uri=row.uri,
        wire=wire,
        code_path="",
        is_template=False,
        static=static,
        content_revision=row.content_revision,
    )


def listed_mime_type(mime_type: str, file: str, uri: str, text: str) -> str:
    """Return the MIME type of a resource in lists: the entered type, or else a guess from the file name."""
    if mime_type:
        return mime_type
    if file:
        return static_content.guess_mime_type(file)
    return static_content.guess_mime_type(uri) if _names_file(uri, text) else "text/plain"


def _names_file(uri: str, text: str) -> bool:
    return uri.lower().startswith("file:") and not text


CONTENT: Final = ContentSource()
