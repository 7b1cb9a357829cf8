"""The cost of listing 20 rows: as tool of a model, as tool of a viewset, and by calling the view directly.

``python -m benchmarks.exposing``: medians of CPU time over rounds in which all three take turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARM_ROUNDS = 1
ROUNDS = 9
CALLS = 60


def main() -> int:
    """Measure in a temporary database, with the rows of each round together.

    Return 0 if every target is met.
    """
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django
    from django.conf import settings

    with tempfile.TemporaryDirectory(prefix="mcp-bench-") as folder:
        settings.DATABASES["default"]["NAME"] = Path(folder) / "rows.sqlite3"
        django.setup()
        calls = _calls()
        rounds: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(WARM_ROUNDS + ROUNDS):
            for name, call in calls.items():
                spent = _milliseconds(call)
                if number >= WARM_ROUNDS:
                    rounds[name].append(spent)
    return 0 if _judge({name: statistics.median(spent) for name, spent in rounds.items()}) else 1


def _judge(cost: dict[str, float]) -> bool:
    for name, milliseconds in cost.items():
        emit(work="a list of 20 rows", server=name, median_cpu_ms=round(milliseconds, 2), rounds=ROUNDS)
    over_model = cost["viewset tool"] / cost["model tool"]
    over_hand = cost["viewset tool"] / cost["view by hand"]
    met = (over_model >= 2, over_hand <= 1.3)
    text = "viewset tool / model tool, a list of 20 rows"
    emit(target=text, value=round(over_model, 2), at_least=2, met=met[0])
    text = "viewset tool / view called by hand, a list of 20 rows"
    emit(target=text, value=round(over_hand, 2), at_most=1.3, met=met[1])
    return all(met)


def emit(**facts: object) -> None:
    """Print one JSON object on its own line."""
    print(json.dumps(facts), flush=True)


def _calls() -> dict[str, Callable[[], Any]]:
    from django.contrib.auth.models import Group, Permission, User
    from django.contrib.contenttypes.models import ContentType
    from django.db import connection
    from rest_framework import pagination, permissions, serializers, viewsets
    from rest_framework.test import APIRequestFactory, force_authenticate

    from mcp_app import expose
    from mcp_app.catalogue.definitions.registry import registry
    from mcp_app.catalogue.exposure.adapters import CONTEXT

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


def _milliseconds(call: Callable[[], Any]) -> float:
    """Return the CPU time of one call in a round."""
    start = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - start) / CALLS * 1000


def measure() -> bool:
    """Measure in a separate process, as Django is set up once in each. Return True if every target is met."""
    return subprocess.run([sys.executable, "-m", __name__], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
