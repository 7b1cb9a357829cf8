"""Addresses: the admin, and an API of the project's own."""

from django.apps import apps
from django.contrib import admin
from django.urls import include, path
from rest_framework.routers import DefaultRouter

from shop.views import OrderViewSet

router = DefaultRouter()
router.register("orders", OrderViewSet)

urlpatterns = [path("api/", include(router.urls))]
if apps.is_installed("django.contrib.admin"):
    urlpatterns += [path("admin/", admin.site.urls)]
