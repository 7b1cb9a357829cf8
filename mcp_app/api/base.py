"""Base classes of the API's views. They do not depend on the REST framework settings of the project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rest_framework.exceptions import ValidationError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from mcp_app.api import problems
from mcp_app.api.authentication import ApiKeyAuthentication, BrowserAuthentication
from mcp_app.api.filtering import NoFilter, asked
from mcp_app.api.formats import JsonParser, JsonRenderer
from mcp_app.api.openapi import Described
from mcp_app.api.paging import KeysetPages
from mcp_app.api.permissions import HasNeeded, RequiredPermissions
from mcp_app.api.throttling import Throttle

METHODS = ("get", "head", "post", "patch", "delete")


class Guarded:
    """Mixin of every view: authentication, throttling and permissions.

    ``needs`` maps the action of a viewset, or the method of a plain view, to the required permissions.
    """

    authentication_classes: Any = (ApiKeyAuthentication, BrowserAuthentication)
    throttle_classes: Any = (Throttle,)
    permission_classes: Any = (HasNeeded,)
    parser_classes: Any = (JsonParser,)
    renderer_classes: Any = (JsonRenderer,)
    content_negotiation_class: Any = DefaultContentNegotiation
    metadata_class: Any = None
    versioning_class: Any = None
    http_method_names: Any = METHODS
    schema: Any = Described()
    needs: ClassVar[dict[str, RequiredPermissions]] = {}
    request: Any

    @property
    def called(self) -> str | None:
        """The action of a viewset, or the HTTP method of a plain view."""
        method = (self.request.method or "").lower()
        return getattr(self, "action", "get" if method == "head" else method)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate, throttle, and then check permissions.

        In this order, denied requests count as well.
        """
        view: Any = self
        view.format_kwarg = None
        request.accepted_renderer, request.accepted_media_type = view.perform_content_negotiation(request)
        request.version, request.versioning_scheme = None, None
        view.perform_authentication(request)
        view.check_throttles(request)
        view.check_permissions(request)

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        """Return this API's exception handler instead of the project's."""
        return problems.answer

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Forbid caching, because every response depends on the user."""
        done: Any = super().finalize_response(request, response, *args, **kwargs)  # type: ignore[misc]
        done.headers.setdefault("Cache-Control", "no-store")
        return done


class InputSerializer(Serializer[Any]):
    """A request body. Unknown members are refused, because the client may rely on them."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the validated values.

        Raises ValidationError with messages per field, including fields that are unknown.
        """
        if isinstance(data, Mapping) and (unknown := sorted(data.keys() - self.fields.keys())):
            text = f"Unknown field. Known fields: {', '.join(self.fields)}."
            raise ValidationError({name: [text] for name in unknown})
        return super().to_internal_value(data)


class ApiView(Guarded, APIView):
    """Base class of views with a single address."""


class ApiViewSet(Guarded, GenericViewSet[Any]):
    """Base class of views for a list of rows and for each row.

    ``filters`` is the serializer of the list's query parameters.
    """

    pagination_class: Any = KeysetPages
    filter_backends: Any = ()
    filters: ClassVar[type[Serializer[Any]]] = NoFilter

    def page(self, rows: Any, serializer: Any = None) -> Response:
        """Return the requested page of those ``rows`` that match the query."""
        found = self.paginate_queryset(self._narrowed(rows))
        shown = (serializer or self.get_serializer)(found, many=True)
        return self.get_paginated_response(shown.data)

    def _narrowed(self, rows: Any) -> Any:
        form = self.filters if self.action == "list" else NoFilter
        known = asked(form, self.request, "cursor", "limit")
        return known.narrow(rows) if hasattr(known, "narrow") else rows.filter(**known.validated_data)
