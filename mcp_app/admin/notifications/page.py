"""The page on which users choose for which events and through which channels they are notified."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from mcp_app import conf
from mcp_app.admin.base import notices_script
from mcp_app.auth.permissions import permissions_of
from mcp_app.interface import links
from mcp_app.models import NotificationChannel
from mcp_app.notices import mail, webhook
from mcp_app.notices.attention import KINDS, PERMISSIONS
from mcp_app.notices.channels import channels_of, choose
from mcp_app.notices.delivery import send_test
from mcp_app.optional_parts import CONSOLE

Way = NotificationChannel.Way


class NotificationsForm(forms.Form):
    """The form with the chosen events of each channel. It offers only events on which the user may act."""

    address = forms.CharField(max_length=500, required=False)

    def __init__(self, user: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        has = permissions_of(user)
        self.offered = {
            kind: words for kind, words in KINDS.items() if all(name in has for name in PERMISSIONS[kind])
        }
        for way in Way:
            choices = list(self.offered.items())
            self.fields[way.value] = forms.MultipleChoiceField(choices=choices, required=False)

    def clean(self) -> dict[str, Any]:
        """Validate the address of the webhook."""
        cleaned = super().clean() or {}
        address = cleaned.get("address", "").strip()
        if address and (problem := webhook.objection_to(address)):
            self.add_error("address", problem)
        elif cleaned.get(Way.WEBHOOK) and not address:
            self.add_error("address", "Enter the URL of the webhook.")
        return {**cleaned, "address": address}

    def store(self, user: Any, *, new_secret: bool) -> str:
        """Store the choices. Return the new secret of the webhook, or ""."""
        secret = ""
        for way in Way:
            to = self.cleaned_data["address"] if way is Way.WEBHOOK else ""
            again = new_secret and bool(to)
            secret += choose(user=user, way=way, kinds=self.cleaned_data[way], address=to, new_secret=again)
        return secret


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def notifications(request: HttpRequest) -> HttpResponse:
    """Show the user's choices and the last delivery of each channel. A POST stores new choices."""
    if "test" in request.POST:
        return _test(request, request.POST["test"])
    chosen = channels_of(request.user)
    secret = ""
    if request.method == "POST":
        form = NotificationsForm(request.user, request.POST)
        if form.is_valid():
            secret = form.store(request.user, new_secret="new_secret" in request.POST)
            messages.success(request, "Notification settings saved.")
            if not secret:
                return HttpResponseRedirect(reverse("mcp_notifications"))
            chosen = channels_of(request.user)
    else:
        kept: dict[str, Any] = {way: channel.kinds for way, channel in chosen.items()}
        if Way.WEBHOOK in chosen:
            kept["address"] = chosen[Way.WEBHOOK].address
        form = NotificationsForm(request.user, kept) if kept else NotificationsForm(request.user)
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": "Notifications",
        "form": form,
        "ways": [_way(way, form, chosen.get(way), request) for way in Way],
        "secret": secret,
        "notices_url": notices_script(),
        "arguments": conf.get().notify_arguments,
    }
    return TemplateResponse(request, "mcp_admin/notifications.html", context)


def _test(request: HttpRequest, way: str) -> HttpResponse:
    """Send a test notification through a channel, and show the result."""
    if problem := send_test(user=request.user, way=way):
        messages.error(request, f"The test was not sent. {problem}")
    else:
        messages.success(request, f"Test {Way(way).label} sent.")
    return HttpResponseRedirect(reverse("mcp_notifications"))


def _way(
    way: Way, form: NotificationsForm, channel: NotificationChannel | None, request: HttpRequest
) -> dict[str, Any]:
    """Return a channel for display."""
    picked = form[way.value].value() or []
    return {
        "name": way.value,
        "label": way.label.capitalize(),
        "kinds": [(kind, words, kind in picked) for kind, words in form.offered.items()],
        "channel": channel,
        "may_test": channel is not None
        and (way is Way.EMAIL or (way is Way.WEBHOOK and bool(channel.address))),
        "note": _note(way, request),
        "help_url": links.document("settings.md") if way is Way.EMAIL and not mail.is_configured() else "",
    }


def _note(way: Way, request: HttpRequest) -> str:
    """Return the reason why a channel cannot work, or ""."""
    if way is Way.BROWSER:
        return (
            ""
            if CONSOLE.is_there()
            else "Notifications in the browser need the live console, which is not installed."
        )
    if not conf.get().redis_url:
        return "Sending needs a worker: set REDIS_URL."
    if way is Way.EMAIL:
        if not mail.is_configured():
            return "No mail server is configured. Enter it in the setting EMAIL_URL and restart the server."
        if not getattr(request.user, "email", ""):
            return "Your account has no email address."
    return ""
