"""Addresses: the admin, and an API of the project's own."""

from django.contrib import admin
from django.urls import include, path
from rest_framework.routers import DefaultRouter

from shop.views import OrderViewSet

router = DefaultRouter()
router.register("orders", OrderViewSet)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include(router.urls)),
]
