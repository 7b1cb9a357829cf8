"""The typed form of ``settings.MCP_SKILLS``: the folders of skills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.apps import apps
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured

FOLDER: Final = "skills"
KEYS: Final = ("DIRECTORIES", "APP_DIRECTORIES")


def roots() -> Iterator[Path]:
    """Yield the folders of skills in apps, then the folders that the settings list.

    Raises ImproperlyConfigured naming the key and the requirement.
    """
    values = getattr(django_settings, "MCP_SKILLS", {})
    if unknown := sorted(set(values) - set(KEYS)):
        raise ImproperlyConfigured(
            f"settings.MCP_SKILLS has no key {unknown[0]!r}. Known keys: {', '.join(KEYS)}."
        )
    of_apps, named = values.get("APP_DIRECTORIES", True), values.get("DIRECTORIES", ())
    if not isinstance(of_apps, bool):
        raise ImproperlyConfigured("settings.MCP_SKILLS['APP_DIRECTORIES'] must be True or False.")
    if not isinstance(named, (list, tuple)) or not all(isinstance(item, (str, Path)) for item in named):
        raise ImproperlyConfigured("settings.MCP_SKILLS['DIRECTORIES'] must be a list of folders.")
    if of_apps:
        yield from (found for app in apps.get_app_configs() if (found := Path(app.path, FOLDER)).is_dir())
    for item in named:
        if not Path(item).is_dir():
            raise ImproperlyConfigured(
                f"settings.MCP_SKILLS['DIRECTORIES'] names {str(item)!r}, which is not a folder."
            )
        yield Path(item)
