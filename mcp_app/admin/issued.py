"""Base classes of admin pages for rows that are issued with a secret and never edited.

The secret is shown once. The classes do not depend on any model.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from mcp_app.admin.base import M, ModelAdmin, ModelForm


class IssuedForm(ModelForm[M]):
    """A form that issues a row.

    The last step of its validation calls a service. Errors of the service are shown beside the fields.
    """

    actor: Any = None
    secret: str = ""

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # Django's own forms extend the same hook.
        if not self.errors:
            self.issue()

    @abstractmethod
    def issue(self) -> None:
        """Issue the row and its secret. If the service refuses, add its errors to the form."""

    def save(self, commit: bool = True) -> M:
        """Return the row, which has been issued during validation."""
        return self.instance

    def save_m2m(self) -> None:
        """Do nothing, because issued rows have no many-to-many fields."""


class IssuedAdmin(ModelAdmin[M]):
    """Admin pages of rows that are read-only after they were issued."""

    entered_fields: tuple[str, ...]
    shown_fields: tuple[str, ...]
    issued_title: str
    issued_template: str

    @abstractmethod
    def issued_context(self, request: HttpRequest, row: M, secret: str) -> dict[str, Any]:
        """Return the template context of the page that shows the secret."""

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.shown_fields if obj else self.entered_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.shown_fields if obj else ()

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return the form class. The user is attached to it as ``actor``."""
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.actor = request.user
        return form

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        """Return the row. The secret is attached to it for the response to this request."""
        row = form.save()
        row.issued_secret = form.secret
        return row

    def save_model(self, request: HttpRequest, obj: M, form: Any, change: bool) -> None:
        """Do nothing, because the form has already issued the row through its service."""

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self.issued_page(request, obj, obj.issued_secret)

    def issued_page(self, request: HttpRequest, row: M, secret: str, **more: Any) -> HttpResponse:
        """Return the page that shows a new secret. ``more`` is additional template context.

        Only a hash of the secret is stored, so no other page can show it.
        """
        context = {
            **self.object_context(request, self.issued_title),
            **self.issued_context(request, row, secret),
            "secret": secret,
            **more,
        }
        response = TemplateResponse(request, self.issued_template, context)
        response.headers["Cache-Control"] = "no-store"
        return response

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the form with a single submit button, because every submission leads to the secret."""
        one = {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().add_view(request, form_url, {**one, **(extra_context or {})})
