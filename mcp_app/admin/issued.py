"""Owns pages of rows that are made with a secret, which is shown once, and never edited; knows no model."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from mcp_app.admin.base import M, ModelAdmin, ModelForm


class IssuedForm(ModelForm[M]):
    """Validation ends with making the row by a service, whose complaints stand beside the fields."""

    actor: Any = None
    secret: str = ""

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # Django's own forms extend the same hook.
        if not self.errors:
            self.issue()

    @abstractmethod
    def issue(self) -> None:
        """Make the row and its secret, or add errors."""

    def save(self, commit: bool = True) -> M:
        """The row that validation has made."""
        return self.instance

    def save_m2m(self) -> None:
        """Such a row has no related rows."""


class IssuedAdmin(ModelAdmin[M]):
    """Rows that one makes and afterwards only looks at."""

    entered_fields: tuple[str, ...]
    shown_fields: tuple[str, ...]
    issued_title: str
    issued_template: str

    @abstractmethod
    def issued_context(self, request: HttpRequest, row: M, secret: str) -> dict[str, Any]:
        """What the template of the page with the secret is given."""

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Such a row is never edited."""
        return False

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """What is entered to make a row; facts afterwards."""
        return self.shown_fields if obj else self.entered_fields

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Everything about a row that is there."""
        return self.shown_fields if obj else ()

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form, knowing who asks."""
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.actor = request.user
        return form

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Any:
        """Carry the secret of the row that was made to the answer of this very request."""
        row = form.save()
        row.issued_secret = form.secret
        return row

    def save_model(self, request: HttpRequest, obj: M, form: Any, change: bool) -> None:
        """Nothing: the form has made the row through its service."""

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """The one page that shows the secret; it is kept nowhere, so it cannot be shown again."""
        context = {
            **self.object_context(request, self.issued_title),
            **self.issued_context(request, obj, obj.issued_secret),
            "secret": obj.issued_secret,
        }
        response = TemplateResponse(request, self.issued_template, context)
        response.headers["Cache-Control"] = "no-store"
        return response

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The form; whatever is pressed leads to the secret, so there is one button."""
        one = {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().add_view(request, form_url, {**one, **(extra_context or {})})
