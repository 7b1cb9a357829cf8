"""``manage.py mcp_startapp NAME``: create an app with a first tool, its test and a README."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.core.management.templates import TemplateCommand

TEMPLATE = Path(__file__).resolve().parents[2] / "app_template"


class Command(TemplateCommand):
    """Create an app like Django's ``startapp``, with a tool."""

    help = "Create a Django app with an MCP tool and its test, in the current or a named folder."
    missing_args_message = "You must provide an application name."
    rewrite_template_suffixes = ((".py-tpl", ".py"), (".md-tpl", ".md"))

    def handle(self, **options: Any) -> None:  # type: ignore[override]
        name, folder = options.pop("name"), options.pop("directory")
        if folder is not None:
            # Django's command requires an existing folder.
            try:
                Path(folder).expanduser().mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise CommandError(f"{folder} cannot be created: {error.strerror}.") from None
        options["template"] = options["template"] or str(TEMPLATE)
        options["extensions"] = [*(options["extensions"] or ()), "py", "md"]
        super().handle("app", name, folder, **options)
        beside = Path(folder).expanduser().resolve().parent if folder else Path.cwd()
        self.stdout.write(
            f"Created {name}. Add it to your INSTALLED_APPS, or serve it with the ready-made project:\n"
            f"  MCP_APPS={name} MCP_APPS_PATH={shlex.quote(str(beside))} make dev"
        )
