"""Login with the identity provider. Users are found by issuer and subject, as for its access tokens.

The library stores the login's state and PKCE verifier in the session, for one use within ten minutes. The
library then fetches the ID token over https, and therefore the signature need not be checked (OpenID Connect
Core, section 3.1.3.7). Neither the provider's tokens nor the library's account rows are stored.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any, Final, Never

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.base.constants import AuthError
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.conf import settings as django_settings
from django.contrib.auth.views import RedirectURLMixin
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from mcp_app import conf
from mcp_app.auth.identity_provider.claims import Claims, read
from mcp_app.auth.identity_provider.people import person_of
from mcp_app.auth.identity_provider.verification import SKEW_SECONDS, TokenRefused, check_storable
from mcp_app.auth.own_addresses import offers_company_login
from mcp_app.auth.public_paths import former_names
from mcp_app.oauth.company.last_response import record_failure, record_login
from mcp_app.oauth.company.provider import Endpoints, ProviderSession
from mcp_app.oauth.consent import page
from mcp_app.oauth.second_factor.pending import enter

_AGAIN: Final = "Try again in a moment."

log = logging.getLogger("mcp.auth")


@method_decorator(never_cache, name="dispatch")
class Leave(RedirectURLMixin, View):
    """The redirect to the provider. Unlike the library's view, it does not pass query parameters on."""

    http_method_names = ("get",)

    def get_default_redirect_url(self) -> str:
        return reverse("mcp_oauth:apps")

    def get(self, request: HttpRequest) -> HttpResponse:
        """Store the address to return to after the login, and redirect to the provider."""
        _only_when_offered()
        nonce = secrets.token_urlsafe(16)
        try:
            response: HttpResponse = (
                Endpoints(request)
                .get_provider()
                .redirect(
                    request,
                    AuthProcess.LOGIN,
                    next_url=self.get_success_url(),
                    auth_params={"nonce": nonce},
                    nonce=nonce,
                )
            )
        except OAuth2Error as error:
            return _not_answered(request, error)
        return response


@never_cache
@require_GET
def come_back(request: HttpRequest) -> HttpResponse:
    """Process the redirect back from the provider, which carries a code or an error."""
    _only_when_offered()
    try:
        response: HttpResponse = OAuth2CallbackView.adapter_view(Endpoints(request))(request)
    except (OAuth2Error, KeyError, TypeError, ValueError) as error:
        # The library does not validate the provider's responses before it reads them.
        return _not_answered(request, error)
    return response


class CompanyAdapter(DefaultSocialAccountAdapter):
    """The library's hooks, adapted to this project."""

    def get_requests_session(self) -> ProviderSession:
        """Return the session that sends requests through the guarded client."""
        return ProviderSession()

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> Never:
        """Log in the project's user before the library looks for its own account."""
        raise ImmediateHttpResponse(_came(request, sociallogin.account.extra_data, sociallogin.state))

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: str = "",
        exception: Any = None,
        extra_context: Any = None,
    ) -> Never:
        """Show the error on this server's own page."""
        if exception is not None:
            raise ImmediateHttpResponse(_not_answered(request, exception))
        if not (extra_context or {}).get("state"):
            reason = "This login has expired, is already complete, or began in another browser."
        elif error == AuthError.CANCELLED:
            reason = f"The login was cancelled, or {provider.name} does not allow it for you."
        else:
            reason = f"{provider.name} refused the login."
        raise ImmediateHttpResponse(_not_logged_in(request, reason))


def _only_when_offered() -> None:
    if not offers_company_login():
        raise Http404


def _came(request: HttpRequest, said: dict[str, Any], state: dict[str, Any]) -> HttpResponse:
    """Log in the user whom the provider identified."""
    try:
        claims = _claims(said, state)
    except (TokenRefused, KeyError) as refused:
        log.warning("The claims of the identity provider were refused: %s", refused)
        record_failure(f"The claims about a user were refused: {refused}")
        reason = f"The information from {_name()} cannot be used. Contact an administrator."
        return _not_logged_in(request, reason)
    record_login()
    user = person_of(claims)
    if user is None:
        log.info("A person from the identity provider has no active user here: %r", claims.subject)
        reason = f"You have no account on this server for your login at {_name()}. Contact an administrator."
        return _not_logged_in(request, reason, status=403)
    return enter(request, user, django_settings.AUTHENTICATION_BACKENDS[-1], state["next"])


def _claims(said: dict[str, Any], state: dict[str, Any]) -> Claims:
    """Return the merged claims of ID token and userinfo.

    The library has already checked audience, expiry and issuer. Raises TokenRefused for a claim that does not
    match and KeyError for a missing claim.
    """
    token, more, settings = said["id_token"], said.get("userinfo", {}), conf.get()
    if token["iss"] != settings.login_issuer or token.get("azp", settings.login_client_id) != (
        settings.login_client_id
    ):
        raise TokenRefused("it is for another client, or of another issuer")
    if token.get("nonce") != state["nonce"]:
        raise TokenRefused("it belongs to another login (nonce)")
    if more and more.get("sub") != token["sub"]:
        raise TokenRefused("it identifies two users (sub)")
    check_storable(token)
    return read({**more, **token}, settings, SKEW_SECONDS)


def _not_answered(request: HttpRequest, error: Exception) -> HttpResponse:
    words = str(error) if isinstance(error, OAuth2Error) else type(error).__name__
    log.warning("Login through the identity provider failed: %s", words)
    record_failure(words)
    return _not_logged_in(request, f"{_name()} could not be reached. {_AGAIN}", status=502)


def _not_logged_in(request: HttpRequest, reason: str, *, status: int = 400) -> HttpResponse:
    return page(request, "mcp_oauth/not_logged_in.html", {"reason": reason}, status=status)


def _name() -> str:
    return conf.get().login_name or "Your company"


__getattr__ = former_names(__name__)
