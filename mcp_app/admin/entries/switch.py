"""The switch of an entry in the list, and the undo of switches and of permissions set in the list."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, JsonResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin import undo
from mcp_app.admin.base import ModelAdmin
from mcp_app.admin.markup import from_now, written
from mcp_app.catalogue.changes.services import may_publish
from mcp_app.catalogue.changes.undoing import SWITCHES, last_revision
from mcp_app.catalogue.changes.undoing import undo as undo_changes
from mcp_app.interface.text import marked

NOT_UNDONE = "This can no longer be undone."


def switch_button(entry: Any, address: str) -> SafeString:
    """Return the switch as an HTML button that posts to ``address``."""
    # A submit button within the form of the list sends the form's CSRF token and works without a script.
    return format_html(
        '<button type="submit" class="mcp-switch" role="switch" formnovalidate name="mcp-enabled"'
        ' aria-checked="{}" formaction="{}" value="{}" title="{}">'
        '<span class="mcp-hidden">{}</span></button>',
        "true" if entry.enabled else "false",
        address,
        "0" if entry.enabled else "1",
        _does(entry),
        "on" if entry.enabled else "off",
    )


def switched(what: str, enabled: bool, *, notified: bool) -> str:
    """Return the message after a switch. If ``told``, it adds that clients are notified."""
    effect = "Clients are notified now." if notified else "Nothing was changed."
    return f"{'Enabled' if enabled else 'Disabled'}: {what}. {effect}"


def as_switched(entry: Any, text: str) -> dict[str, Any]:
    """Return the new state of an entry, from which the list's script updates the row."""
    at = entry.updated_at
    return {
        "enabled": entry.enabled,
        "title": _does(entry),
        "at": timezone.localtime(at).isoformat(),
        "written": written(at),
        "relative": from_now(at),
        "text": text,
    }


def _does(entry: Any) -> str:
    return f"{'Disable' if entry.enabled else 'Enable'} {marked(entry)}"


def asks_for_json(request: HttpRequest) -> bool:
    """Return True if the list's script sent the request."""
    return request.headers.get("Accept") == "application/json"


class SwitchUndo(ModelAdmin[Any]):
    """Undo of a change made in the list. The undo is refused if an entry has changed since."""

    kind: ClassVar[str]

    def get_urls(self) -> list[URLPattern]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_undo"
        return [path("undo/", self.admin_site.admin_view(self.undo_view), name=name), *super().get_urls()]

    def undo_offer(self, request: HttpRequest) -> dict[str, str]:
        """Return the address of the undo and a signed note that identifies the user's last change."""
        revision = last_revision(kind=self.kind, actor=request.user)
        address = self.with_filters(request, self.page_url("undo"))
        return {"address": address, "note": undo.signed_action(request, self.kind, revision)}

    def show_undoable(self, request: HttpRequest, text: str, *, changed: bool) -> None:
        """Show the message after a change in the list, with an undo button if something changed."""
        if changed:
            offer = self.undo_offer(request)
            text = undo.with_undo(request, text, offer["address"], offer["note"])
        self.message_user(request, text, messages.SUCCESS)

    def undo_view(self, request: HttpRequest) -> HttpResponse:
        """Undo the change that the submitted note identifies."""
        if not (self.has_change_permission(request) and may_publish(request.user)):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        revision = undo.read(request, self.kind)
        try:
            if revision is None:
                raise ValidationError(NOT_UNDONE)
            rows, action = undo_changes(kind=self.kind, revision=revision, actor=request.user)
        except ValidationError as error:
            return self._not_undone(request, f"Nothing was undone. {marked(' '.join(error.messages))}")
        what = marked(rows[0]) if len(rows) == 1 else f"{len(rows)} {self.opts.verbose_name_plural}"
        restored = f"Who can use {what} is as before. Clients are notified now."
        text = f"Undone. {switched(what, rows[0].enabled, notified=True) if action in SWITCHES else restored}"
        if asks_for_json(request):
            return JsonResponse(as_switched(rows[0], text))
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(self.back_to_list(request))

    def _not_undone(self, request: HttpRequest, text: str) -> HttpResponse:
        if asks_for_json(request):
            return JsonResponse({"text": text}, status=409)
        self.message_user(request, text, messages.WARNING)
        return HttpResponseRedirect(self.back_to_list(request))
