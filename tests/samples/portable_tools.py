"""One tool for every kind of schema source: hints, serializers, models, Celery tasks."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from celery import Celery
from django.contrib.auth.models import User
from pydantic import BaseModel, Field
from rest_framework import serializers, viewsets
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app import expose, tool


class Kind(enum.Enum):
    one = "one"


class Point(NamedTuple):
    x: float
    label: str = ""


@dataclass
class Node:
    value: int
    below: list[Node] | None = None


class Card(BaseModel):
    kind: Literal["card"]
    amount: Decimal = Field(default=Decimal("1.5"), ge=Decimal("-90.0"), le=Decimal(90))


class Cash(BaseModel):
    kind: Literal["cash"]


class Options(TypedDict, total=False):
    mode: Literal["a", 1]
    size: tuple[int, ...] | None


class Everything(serializers.Serializer[Any]):
    price = serializers.DecimalField(
        max_digits=8, decimal_places=6, min_value=Decimal("-90.0"), max_value=Decimal("90.0"), allow_null=True
    )
    most = serializers.DecimalField(max_digits=None, decimal_places=None, max_value=Decimal("Infinity"))
    score = serializers.FloatField(max_value=float("inf"), min_value=Decimal("1.5"))  # type: ignore[arg-type]
    rank = serializers.IntegerField(allow_null=True, min_value=1)
    state = serializers.ChoiceField(choices=["a", "b"], allow_null=True, allow_blank=True)
    one = serializers.ChoiceField(choices=["x"])
    many = serializers.MultipleChoiceField(choices=["x", "y"])
    meta = serializers.JSONField()
    rows = serializers.ListField(allow_null=True)
    map = serializers.DictField(child=serializers.IntegerField(allow_null=True), allow_null=True)
    code = serializers.RegexField("^(?=a).*")


class EverythingViewSet(viewsets.ViewSet):
    permission_classes = (AllowAny,)

    def get_serializer(self, *arguments: Any, **keywords: Any) -> Everything:
        return Everything(*arguments, **keywords)

    def create(self, request: Request) -> Response:
        return Response()


def define_every_kind() -> None:
    """Register the tools."""
    app = Celery("portable", broker="memory://", set_as_current=False)

    @app.task(name="portable.task")
    def task(point: tuple[float, str], mode: Literal["x"] = "x") -> None:
        """Run."""

    @tool
    def nothing() -> None:
        """Take nothing."""

    @tool
    def much(
        point: tuple[float, float],
        named: Point,
        node: Node,
        kind: Kind,
        mixed: Literal["x", 1] | None,
        paid: Annotated[Card | Cash, Field(discriminator="kind")],
        options: Options,
        bound: Annotated[float, Field(lt=float("inf"))],
        empty: tuple[()] = (),
        listed: list = [],  # type: ignore[type-arg]  # noqa: B006
        anything: Any = None,
    ) -> Node:
        """Take much."""
        return node

    expose.celery_task(task, name="task")
    expose.viewset(EverythingViewSet, actions=["create"], prefix="everything")
    expose.model(
        User,
        fields=["id", "last_login", "username", "is_staff"],
        filters=["username", "last_login__gte", "id__in", "last_login__isnull"],
        order=["username"],
    )
