"""A process of another project: a user model with a non-integer key, ATOMIC_REQUESTS, another language."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main(database: str) -> None:
    """Expose its viewset and its model, and print the results for two users."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "foreign_project" / "project"))
    os.environ["DJANGO_SETTINGS_MODULE"] = "acme.settings"
    import django
    from django.conf import settings

    settings.INSTALLED_APPS.append("mcp_app")
    settings.DATABASES["default"]["NAME"] = database
    django.setup()
    print(json.dumps(_answers()))


def _answers() -> dict[str, object]:
    from django.apps import apps
    from django.db import connection
    from people.models import Person
    from shop.models import Order
    from shop.views import OrderViewSet

    from mcp_app import expose
    from mcp_app.testing import call_tool

    with connection.schema_editor() as editor:
        for label in ("contenttypes", "auth", "people", "shop"):
            for model in apps.get_app_config(label).get_models():
                editor.create_model(model)
    ada, bob = (Person.objects.create_user(f"{name}@acme.example") for name in ("ada", "bob"))
    Order.objects.create(customer=ada, product="Lamp", year=2026)
    expose.viewset(OrderViewSet, actions=["list", "retrieve"], prefix="orders")
    own = lambda context: Order.objects.filter(customer=context.user)  # noqa: E731 - as people write it
    expose.model(Order, fields=["product", "customer__email"], queryset=own, permission="", prefix="rows")
    return {
        "ada": call_tool("orders_list", user=ada)["structuredContent"],
        "one": call_tool("orders_retrieve", {"pk": 1}, user=ada)["structuredContent"],
        "bob": call_tool("orders_retrieve", {"pk": 1}, user=bob)["content"][0]["text"],
        "nobody": call_tool("orders_list")["_meta"],
        "rows": call_tool("rows_list", user=ada)["structuredContent"]["rows"],
        "none": call_tool("rows_list", user=bob)["structuredContent"]["rows"],
    }


if __name__ == "__main__":
    main(sys.argv[1])
