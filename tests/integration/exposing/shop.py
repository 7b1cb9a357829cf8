"""A shop with a typical HTTP API that uses every part of REST framework."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.db import models
from django.http import HttpResponse
from rest_framework import filters, mixins, pagination, permissions, serializers, status, viewsets
from rest_framework.authentication import BasicAuthentication, SessionAuthentication
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import UserRateThrottle

LABEL = "exposed_shop"


class Customer(models.Model):
    name = models.CharField(max_length=50)
    api_key = models.CharField(max_length=50, default="customer-secret")
    owner = models.ForeignKey(User, on_delete=models.CASCADE, null=True)

    class Meta:
        app_label = LABEL

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    STATUS = {"open": "Open", "paid": "Paid", "lost": "Lost"}

    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
    number = models.CharField(max_length=20, unique=True)
    total = models.DecimalField(max_digits=8, decimal_places=2, default=Decimal(0), help_text="In euros.")
    status = models.CharField(max_length=10, choices=STATUS, default="open")
    due = models.DateField(null=True, blank=True)
    placed = models.DateTimeField(null=True)
    weight = models.FloatField(null=True)
    rank = models.IntegerField(default=0)
    gift = models.BooleanField(default=False)
    extra = models.JSONField(null=True, blank=True)
    cost = models.DecimalField(max_digits=8, decimal_places=2, default=Decimal("7.77"))

    class Meta:
        app_label = LABEL
        ordering = ("-number",)

    def __str__(self) -> str:
        return self.number


class OrderSerializer(serializers.ModelSerializer[Order]):
    label = serializers.SerializerMethodField()

    class Meta:
        model = Order
        fields = ("id", "customer", "number", "total", "status", "due", "gift", "extra", "label")

    def get_label(self, order: Order) -> str:
        return f"No. {order.number}"

    def validate_number(self, number: str) -> str:
        if number.startswith("X"):
            raise ValidationError("No number begins with X.")
        return number


class OrderPages(pagination.PageNumberPagination):
    page_size = 5
    page_size_query_param = "size"
    max_page_size = 50


class OnlyOwn(permissions.BasePermission):
    """Refuses objects of other users to all but superusers."""

    message = "This order is not yours."

    def has_object_permission(self, request: Request, view: Any, order: Order) -> bool:
        return bool(request.user.is_superuser or order.customer.owner_id == request.user.pk)


class Often(UserRateThrottle):
    """Switched on by a test."""

    rate = "1000/min"


class OrderViewSet(viewsets.ModelViewSet[Order]):
    """Orders of customers."""

    queryset = Order.objects.select_related("customer")
    serializer_class = OrderSerializer
    authentication_classes = (BasicAuthentication, SessionAuthentication)
    permission_classes = (
        permissions.DjangoModelPermissionsOrAnonReadOnly,
        permissions.IsAuthenticated,
        OnlyOwn,
    )
    pagination_class = OrderPages
    filter_backends = (filters.SearchFilter, filters.OrderingFilter)
    throttle_classes = (Often,)
    search_fields = ("number", "customer__name")
    ordering_fields = ("number", "total")

    def get_queryset(self) -> Any:
        orders = super().get_queryset()
        return orders if self.request.user.is_superuser else orders.exclude(status="lost")

    @action(detail=True, methods=["post"])
    def mark_paid(self, request: Request, pk: str) -> Response:
        """Mark an order as paid."""
        order = self.get_object()
        order.status = "paid"
        order.save(update_fields=["status"])
        if request.data.get("number") == "wrong":
            raise ValidationError({"number": ["Wrong."]})
        return Response({"status": order.status, "auth": type(request.auth).__name__})

    @action(detail=False)
    def totals(self, request: Request) -> Response:
        """The sum of each status."""
        return Response(
            [{"status": "open", "total": Decimal("1.50")}],
            status=status.HTTP_203_NON_AUTHORITATIVE_INFORMATION,
        )

    @action(detail=True, url_path="lines/(?P<line>[0-9]+)")
    def line(self, request: Request, pk: str, line: str) -> Response:
        """One line of an order."""
        return Response({"order": self.get_object().pk, "line": line, "url": self.reverse_action("list")})

    @action(detail=False, permission_classes=[permissions.AllowAny])
    def label(self, request: Request) -> HttpResponse:
        """A text that is no JSON."""
        return HttpResponse("plain words", content_type="text/plain; charset=utf-8")

    @action(detail=False, methods=["post"])
    def broken(self, request: Request) -> Response:
        """Fails as code fails."""
        raise KeyError("secret detail")


class UndoneViewSet(OrderViewSet):
    """Writes before it refuses."""

    def perform_create(self, serializer: Any) -> None:
        serializer.save()
        raise ValidationError({"number": ["Undone."]})


class CustomerViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[Customer]):
    """Customers; without routes, pages or authentication."""

    queryset = Customer.objects.order_by("pk")
    permission_classes = (permissions.AllowAny,)

    class CustomerSerializer(serializers.ModelSerializer[Customer]):
        class Meta:
            model = Customer
            fields = ("id", "name")

    serializer_class = CustomerSerializer
