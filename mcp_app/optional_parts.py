"""The optional parts of this app, and what is missing for each."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from django.apps import apps

DISTRIBUTION: Final = "django-mcp-app"


@dataclass(frozen=True, slots=True)
class Part:
    """An optional feature.

    It needs ``libraries``, which the extra installs, and ``app`` in INSTALLED_APPS.
    """

    name: str
    extra: str
    app: str
    libraries: tuple[str, ...]

    def missing(self) -> tuple[str, ...]:
        """Return the libraries that are not installed."""
        return tuple(name for name in self.libraries if find_spec(name) is None)

    def is_there(self) -> bool:
        """Return True if the feature is available."""
        return apps.is_installed(self.app) and not self.missing()

    def remedy(self) -> str:
        """Return the step that would make the feature available."""
        if self.missing():
            return f"pip install '{DISTRIBUTION}[{self.extra}]'"
        return f"Add {self.app!r} to INSTALLED_APPS."


CONSOLE: Final = Part("The live console", "console", "django.contrib.admin", ("channels",))
API: Final = Part("The REST API", "api", "rest_framework", ("rest_framework", "drf_spectacular"))
PROVIDER: Final = Part("AUTH = 'external'", "oauth", "mcp_app", ("jwt",))
COMPANY_LOGIN: Final = Part("The company login", "sso", "allauth.socialaccount", ("allauth",))
SECOND_FACTOR: Final = Part("The second factor", "sso", "allauth.mfa", ("allauth", "qrcode"))
WEB_TOOLS: Final = Part("web_scrape", "server", "mcp_app.contrib.web_tools", ("selectolax", "markdownify"))
