"""Times as the API shows and takes them: with their zone, also where a project has switched USE_TZ off."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any, ClassVar, TypeVar

from django.db.models import Model
from django.utils import timezone
from rest_framework import serializers

from mcp_app.aware_times import AwareDateTimeField

M = TypeVar("M", bound=Model)


class DateTimeField(serializers.DateTimeField):
    """The framework's, without its exception for such projects."""

    def default_timezone(self) -> tzinfo:
        return timezone.get_current_timezone()


class RowSerializer(serializers.ModelSerializer[M]):
    """What shows rows of ours."""

    serializer_field_mapping: ClassVar[dict[Any, Any]] = {
        **serializers.ModelSerializer.serializer_field_mapping,
        AwareDateTimeField: DateTimeField,
    }
