"""How views describe themselves in the OpenAPI document: what they need, how a list can be narrowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema

LINE = "\n"
F = TypeVar("F", bound=Callable[..., Any])


class Described(AutoSchema):
    """Adds the permission an operation needs and the parameters its list can be narrowed by."""

    view: Any

    def get_description(self) -> str:  # type: ignore[override]  # The library's own has this signature.
        """The method's docstring after its first line, and the permission it needs."""
        need = self.view.needs.get(getattr(self.view, "action", self.method.lower()))
        return f"{super().get_description().partition(LINE)[2].strip()}{LINE}{LINE}{need}".strip()

    def get_summary(self) -> str:
        """The first line of the method's text."""
        return super().get_description().partition(LINE)[0]

    def get_tags(self) -> list[str]:
        """The first part of the address; what is about the API itself stands together."""
        found = super().get_tags()
        return ["api"] if found in ([], ["schema"]) else found

    def get_auth(self) -> list[Any]:
        """The same for every operation: the document says it once."""
        return []

    def get_request_serializer(self) -> Any:
        """What a view takes, where that is not what it shows."""
        return getattr(self.view, "given", None) or super().get_request_serializer()

    def get_override_parameters(self) -> list[Any]:
        """The filters of a list, besides what the method declares."""
        declared = list(super().get_override_parameters())
        filters = getattr(self.view, "filters", None)
        if filters is not None and getattr(self.view, "action", "") == "list":
            declared.append(filters)
        return declared


def described(**what: Any) -> Callable[[F], F]:
    """As the library's own ``extend_schema``, without a setting of the framework in the host project."""

    def decorate(method: F) -> F:
        found: Any = method
        found.kwargs = {**getattr(method, "kwargs", {}), "schema": Described}
        extended: F = extend_schema(**what)(method)
        return extended

    return decorate
