"""OpenAPI documents that tools are imported from."""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.validators import RegexValidator
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.models.edited import EditedRow


class ApiDocument(EditedRow):
    """An OpenAPI document: its content, and the choices made for the tools imported from it.

    ``content`` and ``survey`` are compressed JSON. A received file is ``incoming`` until it is read. A
    newer version is ``newer`` until an administrator has decided about its changes.
    """

    class State(models.TextChoices):
        """The state of the newest file."""

        READING = "reading", "reading"
        READY = "ready", "ready"
        FAILED = "failed", "failed"

    name = models.CharField(
        max_length=64,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*\Z", "Use lower-case letters, digits, - and _.")],
        help_text="Lower-case letters, digits, - and _. The imported tools refer to this name.",
    )
    title = models.CharField(max_length=200, blank=True, editable=False)
    url = models.CharField(
        "URL", max_length=2_000, blank=True, help_text="The address from which updates are fetched."
    )
    prefix = models.CharField(
        max_length=31,
        blank=True,
        validators=[RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9_-]*\Z", "Use letters, digits, - and _.")],
        help_text="Put before each tool name: with github, repos_get becomes github_repos_get.",
    )
    server = models.CharField(max_length=2_000, blank=True, help_text="https://api.example.com/v1")
    credentials = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.READING, editable=False)
    progress = models.PositiveSmallIntegerField(default=0, editable=False)
    problem = models.CharField(max_length=500, blank=True, editable=False)
    version = models.CharField(max_length=10, blank=True, editable=False)
    sha256 = models.CharField("SHA-256", max_length=64, blank=True, editable=False)
    operations = models.PositiveIntegerField(default=0, editable=False)
    content = models.BinaryField(null=True, editable=False)
    survey = models.BinaryField(null=True, editable=False)
    incoming = models.BinaryField(null=True, editable=False)
    newer = models.BinaryField(null=True, editable=False)
    newer_sha256 = models.CharField(max_length=64, blank=True, editable=False)
    fetched_at = AwareDateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = "OpenAPI document"
        ordering: ClassVar[Any] = ["name"]

    def __str__(self) -> str:
        return self.name
