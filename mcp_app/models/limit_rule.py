"""Rules that limit calls of tools, and what was used of each."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

from mcp_app.database.aware_times import AwareDateTimeField
from mcp_app.models.edited import EditedRow

MAX_RATE = 1_000_000
MAX_BUDGET = 1_000_000_000_000
_RATE = (MinValueValidator(1), MaxValueValidator(MAX_RATE))


class LimitRule(EditedRow):
    """A limit on calls of tools: its callers, its tools and its amounts.

    A rule has a rate, a number of concurrent calls, a budget, or several of them. ``who_value`` and
    ``what_value`` name the user, the tool and so on. ``who_value`` is "*" for every user, API key, OAuth
    client or address, each counted separately. A named user or group is stored as ``user`` or ``group``, so
    that the rule still holds after a rename. ``exempt`` are users, groups and API keys whose calls the rule
    neither counts nor refuses, such as ``user:7``.
    """

    class Who(models.TextChoices):
        """The callers whose calls share a count."""

        INSTALLATION = "installation", "all callers together"
        GROUP = "group", "the members of a group together"
        MEMBER = "member", "each member of a group"
        USER = "user", "a user"
        KEY = "key", "an API key"
        CLIENT = "client", "an OAuth client"
        ADDRESS = "address", "a network address"

    class What(models.TextChoices):
        """The tools whose calls count."""

        EVERYTHING = "everything", "all tools"
        TOOLSET = "toolset", "the tools of a toolset"
        TAG = "tag", "tools with a tag"
        TOOL = "tool", "a tool"

    class RatePeriod(models.TextChoices):
        """The period of a rate."""

        SECOND = "second", "second"
        MINUTE = "minute", "minute"
        HOUR = "hour", "hour"
        DAY = "day", "day"

    class BudgetPeriod(models.TextChoices):
        """The period of a budget, by the calendar in UTC."""

        HOUR = "hour", "hour"
        DAY = "day", "day"
        MONTH = "month", "month"

    class Unit(models.TextChoices):
        """The unit of a budget."""

        CALLS = "calls", "calls"
        COST = "cost", "cost units"

    class Mode(models.TextChoices):
        """The effect of a reached limit."""

        ENFORCE = "enforce", "enforced"
        OBSERVE = "observe", "only counted"

    name = models.CharField(
        max_length=64,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*\Z", "Use lower-case letters, digits, - and _.")],
        help_text="Lower-case letters, digits, - and _. Callers see this name when they reach the limit.",
    )
    who = models.CharField("callers", max_length=12, choices=Who.choices, default=Who.USER)
    who_value = models.CharField(
        "name or number",
        max_length=150,
        blank=True,
        help_text="A user name, group, network, or number of an API key or OAuth client, as in the address "
        "of its page. * counts each of them separately.",
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    group = models.ForeignKey(
        "auth.Group", null=True, blank=True, editable=False, on_delete=models.SET_NULL, related_name="+"
    )
    exempt = models.JSONField(default=list, blank=True, editable=False)
    what = models.CharField("tools", max_length=12, choices=What.choices, default=What.EVERYTHING)
    what_value = models.CharField(
        "tool, tag or toolset", max_length=200, blank=True, help_text="Empty for all tools."
    )
    rate = models.PositiveIntegerField("calls", null=True, blank=True, validators=_RATE)
    rate_period = models.CharField("per", max_length=8, choices=RatePeriod.choices, default=RatePeriod.MINUTE)
    burst = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=_RATE,
        help_text="Calls that may come at once after a pause. Empty: as many as the rate.",
    )
    concurrent = models.PositiveIntegerField(
        "concurrent calls",
        null=True,
        blank=True,
        validators=(MinValueValidator(1), MaxValueValidator(100_000)),
    )
    budget = models.PositiveBigIntegerField(
        null=True, blank=True, validators=(MinValueValidator(1), MaxValueValidator(MAX_BUDGET))
    )
    budget_unit = models.CharField("unit", max_length=8, choices=Unit.choices, default=Unit.CALLS)
    budget_period = models.CharField(
        "per", max_length=8, choices=BudgetPeriod.choices, default=BudgetPeriod.MONTH
    )
    mode = models.CharField(max_length=8, choices=Mode.choices, default=Mode.ENFORCE)
    enabled = models.BooleanField(default=True, help_text="Off: the rule has no effect.")

    class Meta:
        verbose_name = "limit"
        ordering: ClassVar[Any] = ["name"]
        permissions: ClassVar[Any] = [("reset_limit", "Can reset the use of a limit")]

    def __str__(self) -> str:
        return self.name

    @property
    def who_name(self) -> str:
        """The current name or the number of the callers, or the last name of a deleted user or group."""
        if self.user is not None:
            return str(self.user.get_username())
        return self.group.name if self.group is not None else self.who_value

    @property
    def is_orphaned(self) -> bool:
        """True if the user or the group was deleted, so that the rule limits no caller."""
        if self.who == self.Who.USER:
            return self.user_id is None and self.who_value != "*"
        return self.who in (self.Who.GROUP, self.Who.MEMBER) and self.group_id is None


class LimitUsage(models.Model):
    """The units that one caller used of a rule in one period, and how many calls the rule refused.

    Calls per minute of a tool have no rule, but the ``tool``. A rate or a number of concurrent calls has a
    row only for periods in which it was reached. Its period is an hour.
    """

    rule = models.ForeignKey(LimitRule, null=True, on_delete=models.CASCADE, related_name="usage")
    tool = models.ForeignKey("mcp_app.Tool", null=True, on_delete=models.CASCADE, related_name="+")
    subject = models.CharField(max_length=160)
    measure = models.CharField(max_length=10)
    period_start = AwareDateTimeField()
    units = models.PositiveBigIntegerField(default=0)
    refused = models.PositiveBigIntegerField(default=0)
    refused_at = AwareDateTimeField(null=True, db_index=True)

    class Meta:
        default_permissions: ClassVar[Any] = ()
        constraints: ClassVar[Any] = [
            models.UniqueConstraint(
                fields=["rule", "subject", "measure", "period_start"], name="mcp_app_usage_of_a_period"
            ),
            models.UniqueConstraint(
                fields=["tool", "subject", "measure", "period_start"], name="mcp_app_usage_of_a_tool"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.subject} {self.units}"

    @property
    def limit(self) -> str:
        """The name of the limit, as callers know it."""
        return self.rule.name if self.rule is not None else f"tool:{getattr(self.tool, 'name', '')}"

    @property
    def number(self) -> int:
        """The ``id`` of the rule in ``mcp_app.limits.rules``: negative for the limit of a tool."""
        return -self.tool_id if self.tool_id is not None else int(self.rule_id or 0)
