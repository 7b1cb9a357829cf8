"""Rows of the catalogue: tools, prompts, resources and templates from any source, and toolsets of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models

from mcp_app.models.edited import EditedRow


class StoredSource(models.TextChoices):
    """The stored names of sources. Only the definition of an ``admin`` entry can be edited."""

    CODE = "code", "code"
    ADMIN = "admin", "admin"
    HTTP = "http", "HTTP tool"
    UPSTREAM = "upstream", "upstream server"


class EntryRow(EditedRow):
    """The columns common to all catalogue rows.

    ``definition`` is a read-only copy of the wire definition of an entry that is defined in code. ``title``
    and ``description`` are texts entered by administrators. They override the definition unless they are
    empty. ``KIND`` is the name of the kind in history and drafts. ``KEY`` is the field that identifies the
    entry for clients.
    """

    KIND: ClassVar[str]
    KEY: ClassVar[str] = "name"

    source = models.CharField(
        max_length=16, choices=StoredSource.choices, default=StoredSource.ADMIN, editable=False
    )
    enabled = models.BooleanField(default=True, db_index=True, help_text="Offered to clients.")
    title = models.CharField(max_length=200, blank=True, help_text="Shown instead of the name.")
    description = models.TextField(blank=True, help_text="Explains to models when and how to use it.")
    permission = models.CharField(
        max_length=200,
        blank=True,
        help_text="Django permission (app_label.codename) that callers need. Empty: everyone.",
    )
    icons = models.JSONField(
        default=list, blank=True, help_text="List of objects with src, mimeType and sizes."
    )
    meta = models.JSONField(default=dict, blank=True, help_text="Further fields of _meta.")
    # A database default: processes of the previous version insert rows without this column.
    tags = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        help_text="Words that group entries, separated by commas. Toolsets and filters can use them.",
    )
    position = models.PositiveIntegerField(default=0, help_text="Smaller numbers come first in lists.")
    definition = models.JSONField(default=dict, blank=True, editable=False)
    definition_hash = models.CharField(max_length=64, blank=True, editable=False)
    reviewed_hash = models.CharField(max_length=64, blank=True, editable=False)
    code_path = models.CharField(max_length=300, blank=True, editable=False)
    missing = models.BooleanField(
        default=False, editable=False, help_text="The code of this entry is no longer installed."
    )

    class Meta:
        abstract = True
        ordering: ClassVar[Any] = ["position", "id"]

    def unique_error_message(self, model_class: Any, unique_check: Sequence[str]) -> ValidationError:
        """Return the error of a name or URI that another entry has."""
        error = super().unique_error_message(model_class, unique_check)
        if tuple(unique_check) != (self.KEY,):
            return error
        key = getattr(self, self.KEY)
        return ValidationError(f"There is already a {self._meta.verbose_name} {key}.", code=error.code)

    @property
    def drifted(self) -> bool:
        """True if this definition changed since an administrator last accepted it."""
        return bool(self.reviewed_hash) and self.reviewed_hash != self.definition_hash


class Tool(EntryRow):
    """A tool or a preset. A preset is a tool under a new name with some arguments fixed."""

    KIND = "tool"

    name = models.CharField(max_length=128, unique=True)
    input_schema = models.JSONField(default=dict, blank=True)
    output_schema = models.JSONField(
        null=True, blank=True, help_text="JSON Schema of the structured result. Empty: not declared."
    )
    annotations = models.JSONField(
        default=dict, blank=True, help_text="Hints for clients, such as readOnlyHint."
    )
    timeout_seconds = models.FloatField(
        "timeout",
        null=True,
        blank=True,
        help_text="Maximum duration of a call, in seconds. Empty: the value in its code, or the server's.",
    )
    calls_per_minute = models.PositiveIntegerField(
        null=True, blank=True, help_text="For each caller. Empty: the value in its code, or no limit."
    )
    background = models.BooleanField(
        default=False, help_text="Calls run in workers and continue after a restart of the server."
    )
    retries = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        help_text="How often a call starts again if its worker stops. Only for idempotent tools in the "
        "background. Empty: the value in its code, or none.",
    )
    queue = models.CharField(
        max_length=100,
        blank=True,
        help_text="Celery queue of background calls. A worker must listen to this queue.",
    )
    priority = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        help_text="0 to 9. Higher priorities run first. Empty: the value in its code, or 0.",
    )
    max_running = models.PositiveIntegerField(
        "maximum running calls",
        null=True,
        blank=True,
        help_text="Background calls of this tool at once, on all workers. Empty: the value in its code, or "
        "no limit.",
    )
    needs_approval = models.BooleanField(
        default=False,
        help_text="Each call waits for approval, then runs in the background. Calls of its presets wait as "
        "well.",
    )
    approval_minutes = models.PositiveIntegerField(
        "approval expires after",
        null=True,
        blank=True,
        help_text="In minutes. A call that is not approved by then expires and never starts. Empty: the "
        "value in its code, or 60.",
    )
    four_eyes = models.BooleanField(
        "another user must approve", default=False, help_text="Users cannot approve their own calls."
    )
    max_result_tokens = models.PositiveIntegerField(
        "maximum tokens of a result",
        null=True,
        blank=True,
        help_text="Longer results are cut; clients can read the rest in pages. At least 250. "
        "Empty: the value in its code, or the server's. Not used with an output schema.",
    )
    max_result_bytes = models.PositiveIntegerField(
        "maximum bytes of a result",
        null=True,
        blank=True,
        help_text="Longer results, including images and files, are cut. At least 1,000. "
        "Empty: the value in its code, or the server's.",
    )
    cost = models.PositiveIntegerField(
        "cost units of a call",
        null=True,
        blank=True,
        help_text="The cost of each call, for budgets in cost units. Empty: the value in its code, or 1.",
    )
    preset_of = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="presets"
    )
    fixed_arguments = models.JSONField(default=dict, blank=True)
    # Null in rows that processes of the previous version insert.
    request = models.JSONField(
        null=True,
        blank=True,
        help_text="The HTTP request of each call, or the tool of the upstream server.",
    )

    class Meta(EntryRow.Meta):
        permissions: ClassVar[Any] = [
            ("try_entries", "Can run tools, prompts and resources in the test bench"),
            ("try_as_others", "Can use the test bench as another user"),
            ("publish_entries", "Can publish and roll back catalogue entries"),
            ("run_doctor", "Can run the doctor"),
        ]

    def __str__(self) -> str:
        return self.name


class Prompt(EntryRow):
    """A prompt. An administrator writes its text, with ``{{name}}`` as a placeholder for an argument.

    ``request`` names the prompt of another server instead.
    """

    KIND = "prompt"

    name = models.CharField(max_length=128, unique=True)
    arguments = models.JSONField(
        default=list, blank=True, help_text="List of objects with name, description and required."
    )
    template = models.TextField(blank=True, help_text="Text with {{name}} placeholders.")
    request = models.JSONField(null=True, blank=True, help_text="The item of another server.")

    def __str__(self) -> str:
        return self.name


class ContentRow(EntryRow):
    """The columns common to resources and resource templates.

    ``request`` names the resource or template of another server.
    """

    name = models.CharField(max_length=200)
    mime_type = models.CharField("MIME type", max_length=120, blank=True)
    annotations = models.JSONField(default=dict, blank=True)
    request = models.JSONField(null=True, blank=True, help_text="The item of another server.")

    class Meta(EntryRow.Meta):
        abstract = True


class Resource(ContentRow):
    """A resource with a fixed URI. A resource made by an administrator holds a text or an uploaded file."""

    KIND = "resource"
    KEY = "uri"

    uri = models.CharField("URI", max_length=500, unique=True)
    text = models.TextField(blank=True)
    # A database default: processes of the previous version insert rows without this column.
    content_revision = models.BigIntegerField(
        default=0, db_default=0, editable=False, help_text="The revision at which the content last changed."
    )
    file = models.FileField(upload_to="resources/", blank=True, max_length=300)

    def __str__(self) -> str:
        return self.uri


class ResourceTemplate(ContentRow):
    """A family of resources whose URIs match an RFC 6570 template.

    Templates come from code or from other servers.
    """

    KIND = "template"
    KEY = "uri_template"

    uri_template = models.CharField("URI template", max_length=500, unique=True)

    def __str__(self) -> str:
        return self.uri_template


class Toolset(EditedRow):
    """A part of the catalogue at a separate address.

    ``members`` names entries, with texts and fixed arguments that apply in this toolset only. ``rules`` add
    entries by kind, tag, prefix of the key, and source. Members with ``excluded`` are left out, even if a
    rule matches them. ``permissions`` are memberships of groups, of which one is enough. ``revision`` is the
    catalogue revision of the last change.
    """

    KIND: ClassVar[str] = "toolset"
    KEY: ClassVar[str] = "slug"

    class Audience(models.TextChoices):
        """The users who can use a toolset."""

        EVERYONE = "everyone", "everyone"
        LOGGED_IN = "logged_in", "all users with a login or an API key"
        GROUPS = "groups", "members of groups"

    slug = models.CharField(
        "name",
        max_length=50,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9-]*\Z", "Use lower-case letters, digits and -.")],
        help_text="Lower-case letters, digits and -. The address of the toolset ends with it.",
    )
    title = models.CharField(max_length=200, blank=True, help_text="Shown by clients instead of the name.")
    instructions = models.TextField(
        blank=True, help_text="Explains to models what these entries are for. Sent when a client connects."
    )
    enabled = models.BooleanField(default=True, help_text="Off: the address does not exist for clients.")
    is_default = models.BooleanField(
        "served at /mcp",
        default=False,
        help_text="Clients of /mcp see the entries of this toolset instead of the whole catalogue.",
    )
    searches = models.BooleanField(
        "search instead of a list",
        default=False,
        help_text="Instead of a list of all tools, models get three tools that find and call the others. "
        "For toolsets with more than about 40 tools.",
    )
    audience = models.CharField(
        "who can use it", max_length=12, choices=Audience.choices, default=Audience.GROUPS
    )
    permissions = models.JSONField(default=list, blank=True, editable=False)
    members = models.JSONField(default=list, blank=True)
    rules = models.JSONField(default=list, blank=True)
    revision = models.PositiveBigIntegerField(default=0, editable=False)

    class Meta:
        ordering: ClassVar[Any] = ["slug"]

    def __str__(self) -> str:
        return self.slug


Row = Tool | Prompt | Resource | ResourceTemplate
ENTRY_KINDS: Final[tuple[type[Row], ...]] = (Tool, Prompt, Resource, ResourceTemplate)
