"""URLconf of the shop's HTTP API."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import DefaultRouter

from tests.integration.exposing.shop import OrderViewSet, UndoneViewSet

router = DefaultRouter()
router.register("orders", OrderViewSet)
router.register("undone", UndoneViewSet, basename="undone")

urlpatterns = [path("v1/", include(router.urls))]
