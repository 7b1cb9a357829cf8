"""What a list of 20 rows costs as tool of a model, as tool of a viewset, and by the view called by hand.

``python -m benchmarks.exposing``: milliseconds of CPU time, the best of several rounds.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 7
CALLS = 60


def main() -> None:
    """Measure in a database of its own."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django
    from django.conf import settings

    with tempfile.TemporaryDirectory() as folder:
        settings.DATABASES["default"]["NAME"] = Path(folder) / "rows.sqlite3"
        django.setup()
        for name, call in _calls().items():
            print(f"{name:14} {_best(call):.2f} ms")


def _calls() -> dict[str, Callable[[], Any]]:
    from django.contrib.auth.models import Group, Permission, User
    from django.contrib.contenttypes.models import ContentType
    from django.db import connection
    from rest_framework import pagination, permissions, serializers, viewsets
    from rest_framework.test import APIRequestFactory, force_authenticate

    from mcp_app import expose
    from mcp_app.catalogue.definitions.registry import registry
    from mcp_app.catalogue.exposing.stand_ins import CONTEXT

    class Pages(pagination.LimitOffsetPagination):
        default_limit = 20

    class Serializer(serializers.ModelSerializer):
        class Meta:
            model = User
            fields = ("id", "username", "email", "first_name", "last_name", "is_active", "date_joined")

    class UserViewSet(viewsets.ReadOnlyModelViewSet):
        queryset = User.objects.order_by("pk")
        serializer_class = Serializer
        pagination_class = Pages
        permission_classes = (permissions.IsAuthenticated,)

    class Context:
        principal = None

        @property
        def user(self) -> Any:
            return User.objects.get(pk=1)

    with connection.schema_editor() as editor:
        for model in (ContentType, Permission, Group, User):
            editor.create_model(model)
    User.objects.bulk_create(User(username=f"user{number}") for number in range(100))
    expose.viewset(UserViewSet, actions=["list"], prefix="viewset")
    expose.model(User, fields=Serializer.Meta.fields, prefix="model")
    view = UserViewSet.as_view({"get": "list"})

    def by_hand() -> None:
        request = APIRequestFactory().get("/users/", SERVER_NAME="localhost")
        force_authenticate(request, Context().user)
        view(request).render()

    tools = {
        f"{name} tool": lambda run=registry.tools[f"{name}_list"].function.call: run(**{CONTEXT: Context()})
        for name in ("model", "viewset")
    }
    return {**tools, "view by hand": by_hand}


def _best(call: Callable[[], Any]) -> float:
    """The least time of one call in any round."""
    call()
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(CALLS):
            call()
        rounds.append((time.process_time() - start) / CALLS * 1000)
    return min(rounds)


if __name__ == "__main__":
    main()
