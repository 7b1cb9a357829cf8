"""``expose``, which offers existing code of a project as tools with one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Unpack

from mcp_app.catalogue.definitions.definition import Wire
from mcp_app.catalogue.definitions.tool_definitions import TaskKeywords
from mcp_app.catalogue.exposure.adapters import Prepare, SharedKeywords


class Expose:
    """The namespace behind ``from mcp_app import expose``."""

    @staticmethod
    def celery_task(task: Any, **options: Unpack[TaskKeywords]) -> None:
        """Offer a Celery task as a background tool. It takes the options of ``tool`` except ``background``.

        The task's signature without ``self`` becomes the input schema. A parameter without type hint accepts
        any JSON value. ``self.update_state(meta={"current": …, "total": …, "message": …})`` becomes progress.
        The default timeout is the task's own time limit. Raises DefinitionError for a task that cannot be
        offered and TypeError for an unknown option.
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
        choose_fields: bool = False,
        permission: str = "",
        **options: Unpack[SharedKeywords],
    ) -> None:
        """Offer actions of a REST framework viewset as the tools ``<prefix>_<action>``.

        A call runs the view itself, as the caller's user: permissions, throttles, filters, pagination,
        parsers and serializers apply, authentication does not. The result is the body of the response. The
        default ``prefix`` is the class's name without "ViewSet". ``url`` has values for further variables of
        the route, such as a version. ``input_schemas`` maps actions to schemas that drf-spectacular cannot
        derive. ``prepare(request, context)`` may set attributes that middleware sets on HTTP requests. It may
        return a context manager in which the view runs. With ``choose_fields``, actions that read rows have
        the argument ``fields``, which reduces their responses. To see and call the tools, callers need
        ``permission`` in addition to the view's permissions. Raises DefinitionError for an action that cannot
        be offered and TypeError for an unknown option.
        """
        from mcp_app.catalogue.exposure.viewsets import offering

        extras = offering.Extras(
            url=url or {}, input_schemas=input_schemas or {}, prepare=prepare, choose_fields=choose_fields
        )
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
        """Offer rows of a model as the read-only tools ``<prefix>_list`` and ``<prefix>_get``.

        Callers can read only ``fields`` (``customer__name`` follows a foreign key). They can filter only by
        ``filters`` (``"status"``, ``"created__gte"``, or ``{"created": ["gte", "lt"]}``). They can sort only
        by the items of ``order``, in both directions; the first item is the default order. The default
        ``prefix`` is the model's name.
        ``queryset(context)`` returns the rows that the caller may see, by default all rows. ``limit`` is the
        maximum number of rows on a page. Callers need ``permission``, by default the model's ``view``
        permission; "" requires none. Fields named like secrets are refused without ``sensitive=True``.
        Raises DefinitionError for a wrong argument and TypeError for an unknown option.
        """
        from mcp_app.catalogue.exposure.models import offering

        choices = offering.Choices(
            fields=fields, filters=filters, order=order, limit=limit, sensitive=sensitive, queryset=queryset
        )
        offering.offer(model, choices, operations, prefix, permission, options)


expose: Final = Expose()
