"""Pages for users who are not staff: login, logout, and connected clients."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from mcp_app import conf
from mcp_app.auth.own_addresses import home_address, names_provider, offers_company_login, second_factor_lacks
from mcp_app.catalogue.snapshots.limit_rules import all_rules
from mcp_app.limits import report
from mcp_app.limits.matching import Caller
from mcp_app.oauth.connections import end
from mcp_app.oauth.consent import page
from mcp_app.oauth.metadata import only_if, only_when_offered
from mcp_app.oauth.models import Client, Connection
from mcp_app.protocol import scopes

# Users without an identity provider need these views also if this server issues no tokens.
only_for_own_users = only_if(lambda: not names_provider())


@method_decorator(only_for_own_users, name="dispatch")
class Login(LoginView):
    """The login page.

    Repeated wrong passwords lock the network address for a while, as in the admin (S22).
    """

    template_name = "mcp_oauth/login.html"

    def get_default_redirect_url(self) -> str:
        return home_address()

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        settings = conf.get()
        context: dict[str, Any] = super().get_context_data(**kwargs)
        to_client = reverse("mcp_oauth:authorize") in self.get_redirect_url()
        company = (settings.login_name or "your company") if offers_company_login() else ""
        return {**context, "server": settings.server.label, "to_client": to_client, "company": company}


@method_decorator(only_for_own_users, name="dispatch")
class Logout(LogoutView):
    """The logout of the browser session. Connected clients stay connected."""

    http_method_names = ("get", "post", "options")

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Redirect to the page with the button, because a link must not end the session."""
        return HttpResponseRedirect(home_address())

    def get_default_redirect_url(self) -> str:
        return reverse("mcp_oauth:login")


@only_when_offered
@never_cache
@require_http_methods(["GET", "POST"])
@login_required(login_url="mcp_oauth:login")
def apps(request: HttpRequest) -> HttpResponse:
    """List the clients that the user has connected. A POST ends one connection."""
    own = Connection.objects.filter(user_id=str(request.user.pk), revoked_at=None).select_related(
        "client", "user"
    )
    if request.method == "POST":
        number = request.POST.get("connection", "")
        connection = (
            own.filter(pk=int(number)).first()
            if number.isascii() and number.isdigit() and len(number) < 19
            else None
        )
        if connection is not None:
            end(connection, "disconnected by the user", actor=request.user)
        return HttpResponseRedirect(reverse("mcp_oauth:apps") + "?done=1")
    # A connection without tokens means that the user consented but the client never exchanged its code.
    live = [each for each in own.filter(refresh_tokens__isnull=False).distinct() if each.live]
    rows = [
        {
            "connection": each,
            "verified": each.client.verified,
            "document": each.client.registration_source == Client.RegistrationSource.CIMD,
            "words": [
                scopes.DESCRIPTIONS[scope] for scope in each.scope.split() if scope in scopes.DESCRIPTIONS
            ],
        }
        for each in live
    ]
    context = {
        "rows": rows,
        "done": "done" in request.GET,
        "second_factor": not second_factor_lacks(),
        "fills": report.of_caller(all_rules(), Caller(f"user:{request.user.pk}")),
    }
    return page(request, "mcp_oauth/apps.html", context)
