"""OpenAPI descriptions of views. They include the required permissions and the filters of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema

LINE = "\n"
F = TypeVar("F", bound=Callable[..., Any])


class Described(AutoSchema):
    """A schema that adds the required permission to each operation, and the filters to each list."""

    view: Any

    def get_description(self) -> str:  # type: ignore[override]  # The library's own has this signature.
        """Return the lines after the first one of the method's docstring, and the required permission."""
        need = self.view.needs.get(getattr(self.view, "action", self.method.lower()))
        return f"{self._text().partition(LINE)[2].strip()}{LINE}{LINE}{need}".strip()

    def get_summary(self) -> str:
        """Return the first line of the method's docstring."""
        return self._text().partition(LINE)[0]

    def _text(self) -> str:
        """Return the method's docstring. A view of one kind of entries has the names of the kind in it."""
        text: str = super().get_description()
        one, many = getattr(self.view, "names", ("entry", "entries"))
        # All these names begin with a consonant.
        article = "an" if one == "entry" else "a"
        return text.replace("an entry", f"{article} {one}").replace("entries", many).replace("entry", one)

    def get_tags(self) -> list[str]:
        """Return the first part of the path as the tag.

        Operations about the API itself have the tag "api".
        """
        found = super().get_tags()
        return ["api"] if found in ([], ["schema"]) else found

    def get_auth(self) -> list[Any]:
        """Return an empty list, because the document defines authentication for all operations."""
        return []

    def get_request_serializer(self) -> Any:
        """Return the serializer of the request body, if it is not that of the response."""
        return getattr(self.view, "given", None) or super().get_request_serializer()

    def get_override_parameters(self) -> list[Any]:
        """Return the declared parameters. For a list, they include its filters."""
        declared = list(super().get_override_parameters())
        filters = getattr(self.view, "filters", None)
        if filters is not None and getattr(self.view, "action", "") == "list":
            declared.append(filters)
        return declared


def described(**what: Any) -> Callable[[F], F]:
    """Decorate a method as ``extend_schema`` does, without settings in the project."""

    def decorate(method: F) -> F:
        found: Any = method
        found.kwargs = {**getattr(method, "kwargs", {}), "schema": Described}
        extended: F = extend_schema(**what)(method)
        return extended

    return decorate
