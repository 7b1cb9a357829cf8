"""A catalogue with an entry of each kind, and helpers for imports."""

from __future__ import annotations

import json
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile

from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.transfer import Imported, export_catalogue, import_catalogue
from mcp_app.models import CatalogueChange, CatalogueRevision, Prompt, Resource, ResourceTemplate, Tool

HEAD = {"format": "django-mcp-catalogue", "version": 1}


def fill() -> None:
    """Change every code entry, and create two entries of each kind that administrators can create."""
    tool, template = Tool.objects.get(name="add"), ResourceTemplate.objects.get()
    services.update_entry(
        entry=tool, actor=None, title="Sum", description="Adds.\nTwo numbers: yes.\r\n", timeout_seconds=1.5,
        calls_per_minute=7, background=True, queue="slow", priority=0, max_running=3, position=99,
        max_result_tokens=900,
        permission="auth.add_user", icons=[{"src": "https://example.com/i.png", "sizes": ["any"]}],
        meta={"example.com/b": {"z": [1, 1.5, True, None], "a": "x\x1b[31m\u202e"}},
    )  # fmt: skip
    services.update_entry(entry=template, actor=None, description="Notes")
    services.set_enabled(entries=[Prompt.objects.get(), Resource.objects.get()], enabled=False, actor=None)
    services.save_tool_preset(
        actor=None, name="five", preset_of=tool, fixed_arguments={"b": 5}, enabled=False
    )
    services.save_tool_preset(actor=None, name="same", preset_of=tool)
    services.save_prompt(
        actor=None, name="greet", template="Hi {{who}},\n\n  {{what}}  \n",
        arguments=[{"name": "who", "required": True}, {"name": "what", "description": "1e5"}],
    )  # fmt: skip
    services.save_prompt(actor=None, name="Überflüssig.no"[-2:], template="yes", title="😀 null")
    services.save_resource(
        actor=None, uri="memo://1", name="memo", text="a: b\n", annotations={"priority": 1}
    )
    services.save_resource(
        actor=None, uri="memo://2", name="2", file=SimpleUploadedFile("a b.tar.gz", bytes(range(256)))
    )


def start_afresh() -> None:
    """Reset the catalogue to a new installation of the same code: mirrored entries only."""
    for kind in (Tool, Prompt, Resource, ResourceTemplate, CatalogueChange, CatalogueRevision):
        kind.objects.all().delete()
    mirror()


def bring(document: dict[str, Any] | str, notation: str = "json", **options: Any) -> Imported:
    """Import a document."""
    text = document if isinstance(document, str) else json.dumps(HEAD | document)
    return import_catalogue(text.encode(), notation, **{"actor": None, **options})


def exported() -> dict[str, Any]:
    """Export the catalogue and return the document."""
    document: dict[str, Any] = json.loads(export_catalogue())
    return document
