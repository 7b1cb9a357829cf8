"""``expose``: existing code of a project as tools, one line each, loaded at first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Unpack

from mcp_app.catalogue.definitions.definition import Wire
from mcp_app.catalogue.definitions.tool_definitions import TaskKeywords
from mcp_app.catalogue.exposure.stand_ins import Prepare, SharedKeywords


class Expose:
    """The namespace behind ``from mcp_app import expose``."""

    @staticmethod
    def celery_task(task: Any, **options: Unpack[TaskKeywords]) -> None:
        """Offer a Celery task as a background tool; its options are those of ``tool`` except ``background``.

        Its signature becomes the input schema (without ``self``; a parameter without type hint takes any JSON
        value), ``self.update_state(meta={"current": …, "total": …, "message": …})`` becomes progress. The
        timeout is the task's own time limit unless given. Raises DefinitionError, TypeError for an unknown
        option.
        """
        from mcp_app.catalogue.exposure import celery_tasks

        celery_tasks.offer(task, **options)

    @staticmethod
    def viewset(
        viewset: Any,
        *,
        actions: Iterable[str],
        prefix: str = "",
        url: Mapping[str, Any] | None = None,
        input_schemas: Mapping[str, Wire] | None = None,
        prepare: Prepare | None = None,
        permission: str = "",
        **options: Unpack[SharedKeywords],
    ) -> None:
        """Offer actions of a REST framework viewset as the tools ``<prefix>_<action>``.

        A call runs the view itself, as the caller's user: permissions, throttles, filters, pagination,
        parsers and serializers apply, authentication does not. The result is the body of the response.
        ``prefix`` is the class's name without "ViewSet" unless given. ``url`` has values for further
        variables of the route, such as a version. ``input_schemas`` has, by action, schemas that
        drf-spectacular cannot find out. ``prepare(request, context)`` may add to the request what middleware
        adds elsewhere, and return a context manager in which the view runs. ``permission`` is needed to see
        and call the tools, beside the view's own. Raises DefinitionError, TypeError for an unknown option.
        """
        from mcp_app.catalogue.exposure.viewsets import offering

        extras = offering.Extras(url=url or {}, input_schemas=input_schemas or {}, prepare=prepare)
        offering.offer(viewset, actions, prefix, extras, permission, options)

    @staticmethod
    def model(
        model: Any,
        *,
        fields: Iterable[str],
        filters: Iterable[str] | Mapping[str, Iterable[str]] = (),
        order: Iterable[str] = (),
        operations: Iterable[str] = ("list", "get"),
        prefix: str = "",
        queryset: Callable[[Any], Any] | None = None,
        limit: int = 100,
        sensitive: bool = False,
        permission: str | None = None,
        **options: Unpack[SharedKeywords],
    ) -> None:
        """Offer rows of a model as the tools ``<prefix>_list`` and ``<prefix>_get``; nothing is written.

        Only ``fields`` are read (``customer__name`` follows a foreign key), only ``filters`` filter
        (``"status"``, ``"created__gte"``, or ``{"created": ["gte", "lt"]}``), only ``order`` sorts, in both
        directions; the first one is the order when none is asked for. ``prefix`` is the model's name unless
        given. ``queryset(context)`` returns the rows the caller may see; all, unless given. ``limit`` is how
        many rows a page may have. Callers need the model's ``view`` permission; ``permission`` names another,
        "" none. Fields that are named like secrets are refused without ``sensitive=True``. Raises
        DefinitionError, TypeError for an unknown option.
        """
        from mcp_app.catalogue.exposure.models import offering

        choices = offering.Choices(
            fields=fields, filters=filters, order=order, limit=limit, sensitive=sensitive, queryset=queryset
        )
        offering.offer(model, choices, operations, prefix, permission, options)


expose: Final = Expose()
