"""Bodies of requests and responses about limits."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from mcp_app.api.base import InputSerializer
from mcp_app.api.formats import RowSerializer
from mcp_app.limits import exemptions, services
from mcp_app.limits.report import Fill
from mcp_app.models import LimitRule


class LimitShown(RowSerializer[LimitRule]):
    """A limit on calls."""

    who_value = serializers.CharField(source="who_name", help_text="The current name of a user or group.")

    exempt = serializers.SerializerMethodField(help_text="The exempt callers, by name.")

    class Meta:
        model = LimitRule
        fields: Any = ("name", *services.FIELDS, "created_at", "updated_at")

    def get_exempt(self, row: LimitRule) -> list[str]:
        return exemptions.names(row.exempt)


class LimitInput(InputSerializer):
    """The settings of a limit. Missing values are not changed."""

    who = serializers.ChoiceField(choices=LimitRule.Who.choices, required=False)
    who_value = serializers.CharField(max_length=150, required=False, allow_blank=True)
    exempt = serializers.ListField(
        child=serializers.CharField(max_length=200),
        max_length=exemptions.MOST,
        required=False,
        help_text="Callers that are not limited, such as user:ada, group:ops or key:3.",
    )
    what = serializers.ChoiceField(choices=LimitRule.What.choices, required=False)
    what_value = serializers.CharField(max_length=200, required=False, allow_blank=True)
    rate = serializers.IntegerField(min_value=1, required=False, allow_null=True)
    rate_period = serializers.ChoiceField(choices=LimitRule.RatePeriod.choices, required=False)
    burst = serializers.IntegerField(min_value=1, required=False, allow_null=True)
    concurrent = serializers.IntegerField(min_value=1, required=False, allow_null=True)
    budget = serializers.IntegerField(min_value=1, required=False, allow_null=True)
    budget_unit = serializers.ChoiceField(choices=LimitRule.Unit.choices, required=False)
    budget_period = serializers.ChoiceField(choices=LimitRule.BudgetPeriod.choices, required=False)
    mode = serializers.ChoiceField(choices=LimitRule.Mode.choices, required=False)
    enabled = serializers.BooleanField(required=False)


class NewLimitInput(LimitInput):
    """A new limit."""

    name = serializers.CharField(max_length=64)


class ResetInput(InputSerializer):
    """The subject to reset. Without one, all are reset."""

    subject = serializers.CharField(max_length=160, required=False, help_text="Such as user:7, or all.")


class Usage(InputSerializer):
    """The use of a limit by one subject."""

    limit = serializers.CharField()
    measure = serializers.ChoiceField(choices=["rate", "concurrent", "budget"])
    subject = serializers.CharField(help_text="Such as user:7, key:3, group:5 or all.")
    used = serializers.IntegerField(allow_null=True, help_text="null while Redis is unavailable.")
    maximum = serializers.IntegerField()
    resets_at = serializers.DateTimeField(allow_null=True)
    refused = serializers.IntegerField(help_text="In the last day, or in the period of a budget.")
    refused_at = serializers.DateTimeField(allow_null=True)
    mode = serializers.ChoiceField(choices=LimitRule.Mode.choices)


def usage_of(fill: Fill) -> dict[str, Any]:
    """Return the body of a fill."""
    rule = fill.bucket.rule
    return {
        "limit": rule.name,
        "measure": fill.bucket.measure,
        "subject": fill.bucket.subject,
        "used": fill.used,
        "maximum": fill.limit,
        "resets_at": fill.resets,
        "refused": fill.refused,
        "refused_at": fill.refused_at,
        "mode": LimitRule.Mode.OBSERVE if rule.observe else LimitRule.Mode.ENFORCE,
    }
