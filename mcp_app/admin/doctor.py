"""The admin page of the doctor. It examines the installation and shows findings with their remedies."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from mcp_app.admin.base import ReadOnlyAdmin
from mcp_app.auth.doctor_tokens import RUN_DOCTOR, issue_doctor_token
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.database import clock
from mcp_app.doctor import Busy, Finding, Installation, Level, examine_alone
from mcp_app.doctor.finding import ok, warning
from mcp_app.models import Doctor
from mcp_app.observability.logs import process_name

# Time limit in seconds, because an examination occupies a web thread. The slowest check, of the public
# address, usually takes less than ten seconds.
SECONDS = 45.0
WORST_FIRST = (Level.ERROR, Level.WARNING, Level.SKIPPED, Level.OK)
TONES = {Level.ERROR: "bad", Level.WARNING: "warn", Level.SKIPPED: "plain", Level.OK: "good"}
TITLES = {
    "settings": "Settings",
    "database": "Database",
    "redis": "Redis",
    "code": "Code of the project",
    "workers": "Workers and beat",
    "keys": "API keys",
    "provider": "Identity provider",
    "documents": "OpenAPI documents",
    "toolsets": "Toolsets",
    "upstreams": "Upstream servers",
    "web": "Public address",
}
SERVERS = ("uvicorn", "granian", "hypercorn", "daphne")
BUSY = "Another user is running checks. Only that user sees the results. Try again soon."


class DoctorForm(forms.Form):
    """The form of the doctor's page. An entered API key is used for one examination and never stored.

    Without a key, the page issues a token for the user who opened it.
    """

    key = forms.RegexField(
        r"^[!-~]+\Z",
        required=False,
        max_length=200,
        label="API key of another user (optional)",
        error_messages={"invalid": "An Authorization header cannot carry a character of this key."},
        widget=forms.PasswordInput(
            attrs={"class": "mcp-input", "autocomplete": "off", "spellcheck": "false"}
        ),
    )


@dataclass(frozen=True, slots=True)
class AreaReport:
    """The findings in an area, the most severe first. ``tone`` is the tone of the most severe finding."""

    title: str
    findings: list[tuple[Finding, str]]
    tone: str


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an examination, prepared for display."""

    areas: list[AreaReport]
    counts: list[tuple[str, str]]
    at: Any
    seconds: float
    process: str


@admin.register(Doctor)
class DoctorAdmin(ReadOnlyAdmin[Doctor]):
    """The doctor's page. It is registered like the list of a model that has no rows."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Doctor | None = None) -> bool:
        """Return True if the user has ``run_doctor``. An examination sends requests and takes time."""
        return request.user.has_perm(RUN_DOCTOR)

    def get_urls(self) -> list[URLPattern]:
        """Return the URL of the page only, because there are no rows."""
        page = sensitive_post_parameters("key")(self.changelist_view)
        return [path("", self.admin_site.admin_view(page), name="mcp_app_doctor_changelist")]

    @sensitive_variables()
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the form. After a POST, show the findings as well."""
        if not self.has_view_permission(request):
            raise PermissionMissing(RUN_DOCTOR)
        form, report, problem, status = (
            DoctorForm(request.POST if request.method == "POST" else None),
            None,
            "",
            200,
        )
        if request.method == "POST" and form.is_valid():
            try:
                key = form.cleaned_data["key"] or issue_doctor_token(request.user)
                report = examined(Installation.configured(key=key), [server(request)])
            except Busy:
                problem, status = BUSY, 409
            except (ValueError, ImproperlyConfigured) as wrong:
                # Errors about the entered key or PUBLIC_URL. Their texts never contain the key.
                problem, status = str(wrong), 400
        context = {
            **self.object_context(request, "Doctor"),
            "form": form,
            "report": report,
            "problem": problem,
            "seconds": SECONDS,
            **(extra_context or {}),
        }
        return TemplateResponse(request, "mcp_admin/doctor.html", context, status=status)


def examined(installation: Installation, more: Sequence[Finding] = ()) -> Report:
    """Run an examination of at most ``SECONDS`` and return the sorted report.

    Raises Busy if another examination is running.
    """
    started = time.monotonic()
    findings = [*examine_alone(installation, SECONDS), *more]
    counted = Counter(finding.level for finding in findings)
    ordered = sorted(findings, key=_place)
    grouped = groupby(ordered, key=_name)
    return Report(
        areas=[_area(name, list(found)) for name, found in grouped],
        counts=[(_counted(counted[level], level), TONES[level]) for level in WORST_FIRST if counted[level]],
        at=clock.utcnow(),
        seconds=time.monotonic() - started,
        process=process_name(),
    )


def server(request: HttpRequest) -> Finding:
    """Return a finding about the web server that serves this request."""
    if not hasattr(request, "scope"):
        text = "this page is served by WSGI, under which /mcp is not served"
        return warning(
            "web.server", text, "Serve the ASGI application: with uvicorn, hypercorn, granian or Daphne."
        )
    name = next((name for name in SERVERS if name in sys.modules), "")
    return ok("web.server", f"this page is served by ASGI: {_release(name)}")


def _release(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except (PackageNotFoundError, ValueError):
        return "an unknown server"


def _counted(count: int, level: Level) -> str:
    is_many = count > 1 and level in (Level.ERROR, Level.WARNING)
    return f"{count} {level}s" if is_many else f"{count} {level}"


def _name(finding: Finding) -> str:
    return finding.check.partition(".")[0]


def _place(finding: Finding) -> tuple[int, str, int]:
    """Return the sort key of a finding: by area, then by severity."""
    names, name = list(TITLES), _name(finding)
    known = names.index(name) if name in names else len(names)
    return known, name, WORST_FIRST.index(finding.level)


def _area(name: str, findings: list[Finding]) -> AreaReport:
    worst = TONES[findings[0].level]
    return AreaReport(
        TITLES.get(name, name), [(finding, TONES[finding.level]) for finding in findings], worst
    )
