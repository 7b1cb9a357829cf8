"""Export of the catalogue, and the import page, which shows a preview before it changes anything."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from mcp_app.admin.base import ModelAdmin
from mcp_app.admin.entries.differences import ShownDifference, field_differences
from mcp_app.admin.markup import badge
from mcp_app.admin.widgets import UploadWidget
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.catalogue.transfer import (
    MAX_BYTES,
    NOTATIONS,
    CatalogueMoved,
    Difference,
    Imported,
    ImportForbidden,
    TransferRefused,
    export_catalogue,
    import_catalogue,
    notation_of,
)
from mcp_app.catalogue.transfer.permissions import CHANGED, SEEN, needed
from mcp_app.interface.text import marked

MOST_SHOWN = 200
TONES = {"added": "good", "changed": "info", "removed": "bad"}
NOT_WHOLE = "The preview was not submitted completely. Choose the file again."
TOO_LARGE = "This is too large for a page: use the API (/api/catalogue/import/) or manage.py mcp_import."


class ImportForm(forms.Form):
    """A file or text to import, its notation, and options."""

    file = forms.FileField(required=False, label="File", widget=UploadWidget())
    text = forms.CharField(
        required=False,
        strip=False,
        label="Or text",
        widget=forms.Textarea({"class": "mcp-input mcp-import-text", "rows": 8, "spellcheck": "false"}),
    )
    notation = forms.ChoiceField(
        required=False,
        label="Format",
        choices=[("", "Detect automatically"), *((name, name.upper()) for name in NOTATIONS)],
        widget=forms.Select({"class": "mcp-input"}),
    )
    prune = forms.BooleanField(
        required=False,
        label="Delete entries that are not in the file",
        help_text="Entries made in the admin are deleted. Entries from code return to their defaults.",
    )

    def clean(self) -> dict[str, Any]:
        """Add ``content`` (the bytes to import) and its ``notation`` to the cleaned data."""
        given = self.cleaned_data
        file, text = given.get("file"), given.get("text") or ""
        if bool(file) == bool(text):
            wanted = "Choose a file or paste its text"
            raise forms.ValidationError(f"{wanted}, not both." if file else f"{wanted}.")
        content = file.read(MAX_BYTES + 1) if file else text.encode("utf-8", "surrogatepass")
        looks = notation_of(file.name) if file else ("json" if text.lstrip().startswith("{") else "yaml")
        return {**given, "content": content, "notation": given.get("notation") or looks}


class ConfirmForm(forms.Form):
    """The import shown in the preview. The browser sends it back to confirm it."""

    packed = forms.CharField(widget=forms.HiddenInput)
    notation = forms.ChoiceField(choices=[(name, name) for name in NOTATIONS], widget=forms.HiddenInput)
    prune = forms.BooleanField(required=False, widget=forms.HiddenInput)
    at_revision = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """Add ``content``, the decompressed bytes, to the cleaned data."""
        try:
            opened = zlib.decompressobj()
            content = opened.decompress(b64decode(self.cleaned_data.get("packed", "")), MAX_BYTES + 1)
        except (ValueError, zlib.error) as error:
            raise forms.ValidationError(NOT_WHOLE) from error
        if not opened.eof:
            raise forms.ValidationError(NOT_WHOLE)
        return {**self.cleaned_data, "content": content}


def packed(content: bytes) -> str:
    """Return a file as base64 text of its compressed bytes.

    Plain text in a form would not survive, because browsers change line ends.
    """
    return b64encode(zlib.compress(content)).decode()


@dataclass(frozen=True, slots=True)
class EntryDifference:
    """A difference between the file and the catalogue, for display."""

    badge: Any
    kind: str
    key: str
    fields: list[ShownDifference]
    is_removed: bool
    warnings: tuple[str, ...]


def shown(difference: Difference) -> EntryDifference:
    """Return a difference prepared for display."""
    action, new = difference.action, {field.name: field.new for field in difference.fields}
    old = {field.name: field.old for field in difference.fields}
    fields = [] if action == "removed" else field_differences(None if action == "added" else old, new)
    sign, kind, key = badge(action, TONES[action]), difference.kind, difference.key
    return EntryDifference(sign, kind, key, fields, action == "removed", difference.warnings)


def may_export(request: HttpRequest) -> bool:
    """Return True if the user may view every kind of entry, because a file contains all kinds."""
    return all(map(request.user.has_perm, SEEN))


def may_import(request: HttpRequest) -> bool:
    """Return True if the user may export and may change at least one kind of entry.

    The permissions for the changes in a file are checked before its import.
    """
    return may_export(request) and any(map(request.user.has_perm, CHANGED))


def buttons(request: HttpRequest, site: str) -> dict[str, str]:
    """Return the addresses of the buttons above the lists that the user may use."""
    addresses = {}
    if may_export(request):
        addresses["export_url"] = reverse(f"{site}:mcp_app_catalogue_export")
    if may_import(request):
        addresses["import_url"] = reverse(f"{site}:mcp_app_catalogue_import")
    return addresses


class TransferPages(ModelAdmin[Any]):
    """The pages for export and import.

    Their addresses are below the list of the model that uses this mixin.
    """

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("export/", wrap(self.export_view), name="mcp_app_catalogue_export"),
            path("import/", wrap(self.import_view), name="mcp_app_catalogue_import"),
            *super().get_urls(),
        ]

    def export_view(self, request: HttpRequest) -> HttpResponse:
        """Return the catalogue as a file download."""
        if not may_export(request):
            raise PermissionMissing(*SEEN)
        notation = request.GET.get("notation", "json")
        if notation not in NOTATIONS:
            notation = "json"
        try:
            text = export_catalogue(notation)
        except TransferRefused as refused:
            for problem in refused.problems:
                self.message_user(request, marked(problem), messages.ERROR)
            return HttpResponseRedirect(self.page_url("changelist"))
        return HttpResponse(
            text,
            content_type=f"application/{notation}; charset=utf-8",
            headers={
                "Content-Disposition": f'attachment; filename="catalogue.{notation}"',
                "Cache-Control": "no-store",
            },
        )

    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Show the form (GET). On POST, preview the submitted file or import the confirmed one."""
        if not may_import(request):
            raise PermissionMissing(*(CHANGED if may_export(request) else SEEN))
        if request.method != "POST":
            return self._page(request, ImportForm())
        if "packed" in request.POST:
            confirmed = ConfirmForm(request.POST)
            if confirmed.is_valid():
                return self._import(request, confirmed.cleaned_data)
            self.message_user(request, NOT_WHOLE, messages.ERROR)
            return self._page(request, ImportForm())
        form = ImportForm(request.POST, request.FILES)
        return (
            self._preview(request, form, form.cleaned_data) if form.is_valid() else self._page(request, form)
        )

    def _preview(self, request: HttpRequest, form: ImportForm, asked: dict[str, Any]) -> HttpResponse:
        """Show a preview of the import, computed by a dry run, with a button to confirm it."""
        content, notation, prune = asked["content"], asked["notation"], asked["prune"]
        carried = packed(content[: MAX_BYTES + 1])
        # Django rejects larger forms before any code reads them. The limit leaves room for the other fields.
        if len(carried) > (settings.DATA_UPLOAD_MAX_MEMORY_SIZE or MAX_BYTES) - 10_000:
            form.add_error(None, TOO_LARGE)
            return self._page(request, form)
        try:
            plan = import_catalogue(content, notation, actor=request.user, prune=prune, dry_run=True)
        except TransferRefused as refused:
            return self._page(request, form, problems=refused.problems)
        confirm = ConfirmForm(
            initial={"packed": carried, "notation": notation, "prune": prune, "at_revision": plan.planned_at}
        )
        missing = [name for name in needed(plan.differences) if not request.user.has_perm(name)]
        return self._page(request, form, plan=plan, confirm=confirm, missing=missing)

    def _import(self, request: HttpRequest, asked: dict[str, Any]) -> HttpResponse:
        try:
            done = import_catalogue(
                asked["content"],
                asked["notation"],
                actor=request.user,
                prune=asked["prune"],
                may=request.user.has_perm,
                at_revision=asked["at_revision"],
            )
        except (CatalogueMoved, ImportForbidden, TransferRefused) as refused:
            if isinstance(refused, CatalogueMoved):
                text = "The catalogue changed after this preview. The new preview is below."
                self.message_user(request, text, messages.WARNING)
            return self._preview(request, ImportForm(), asked)
        counted = ", ".join(f"{number} {name}" for name, number in done.counted().items())
        self.message_user(request, f"Imported as revision {done.revision}: {counted}.", messages.SUCCESS)
        return HttpResponseRedirect(self.page_url("changelist"))

    def _page(
        self, request: HttpRequest, form: ImportForm, *, plan: Imported | None = None, **more: Any
    ) -> HttpResponse:
        differences = plan.differences if plan is not None else ()
        context = {
            **self.object_context(request, "Import catalogue"),
            "form": form,
            "plan": plan,
            "counted": plan.counted() if plan is not None else {},
            "entries": [shown(each) for each in islice(differences, MOST_SHOWN)],
            "not_shown": max(0, len(differences) - MOST_SHOWN),
            "import_url": request.path,
            **more,
        }
        response = TemplateResponse(request, "mcp_admin/import.html", context)
        response.headers["Cache-Control"] = "no-store"
        return response
