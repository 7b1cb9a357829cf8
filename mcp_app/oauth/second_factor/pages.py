"""The pages of the second factor: enter a code, set up an app, manage the app."""

from __future__ import annotations

from typing import Any, Final

from allauth.core.internal.cryptokit import normalize_user_code
from allauth.mfa.totp.internal.auth import generate_totp_secret
from allauth.mfa.utils import decrypt, encrypt
from django.contrib.auth.signals import user_login_failed
from django.contrib.auth.views import redirect_to_login
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from mcp_app.auth.own_addresses import login_address, offers_oauth, second_factor_lacks
from mcp_app.oauth.consent import page
from mcp_app.oauth.second_factor import factors
from mcp_app.oauth.second_factor.gate import PASSED, is_required_of
from mcp_app.oauth.second_factor.library import FactorAdapter
from mcp_app.oauth.second_factor.pending import Pending, finish, pending
from mcp_app.sealing import Unsealed

SECRET: Final = "mcp_second_factor_secret"  # noqa: S105 - a name in the session
WRONG: Final = "Wrong code. Wait for the next code, or enter a recovery code."
_OWN: Final = "mcp_oauth:second_factor"


@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "POST"])
def code(request: HttpRequest) -> HttpResponse:
    """Show the form for the second step of a login, and check the code."""
    held = pending(request)
    if held is None:
        return _expired_login(request)
    error, status = "", 200
    if request.method == "POST":
        outcome = factors.prove(held.user, _typed(request))
        if outcome.proven:
            finish(request, held)
            return HttpResponseRedirect(held.following)
        # Wrong codes count against the network address as wrong passwords do (S22).
        credentials = {"username": held.user.get_username()}
        user_login_failed.send(sender=__name__, credentials=credentials, request=request)
        error, status = _refusal(outcome)
    context = {"error": error, "account": held.user.get_username()}
    return page(request, "mcp_oauth/second_factor_code.html", context, status=status)


@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "POST"])
def set_up(request: HttpRequest) -> HttpResponse:
    """Set up an authenticator app, for a logged-in user or during a login that requires a second factor."""
    held = pending(request)
    user: Any = held.user if held else request.user
    if not user.is_authenticated or second_factor_lacks():
        return _expired_login(request)
    if factors.factor_of(user) is not None:
        return HttpResponseRedirect(reverse("mcp_oauth:second_factor_code" if held else _OWN))
    secret, error = _secret(request), ""
    if request.method == "POST":
        step = factors.right_step(secret, _typed(request))
        if step is not None:
            return _save(request, held, user, secret, step)
        error = "Wrong code. Check that the clock of your device is correct."
    adapter = FactorAdapter()
    drawn = adapter.build_totp_svg(adapter.build_totp_url(user, secret)).partition("?>")[2]
    context = {
        "drawn": mark_safe(drawn),  # noqa: S308 - the library's QR code
        "secret": " ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
        "error": error,
        "required": is_required_of(user),
        "account": user.get_username(),
    }
    return page(request, "mcp_oauth/second_factor_set_up.html", context)


@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "POST"])
def own(request: HttpRequest) -> HttpResponse:
    """Let users renew their recovery codes or remove their second factor. Each action needs a valid code."""
    user: Any = request.user
    if not user.is_authenticated:
        return redirect_to_login(request.path, login_address())
    row = factors.factor_of(user)
    error, status = "", 200
    if request.method == "POST" and row is not None:
        outcome = factors.prove(user, _typed(request))
        if outcome.proven:
            return _done(request, user)
        error, status = _refusal(outcome)
    context = {
        "row": row,
        "left": factors.codes_left(user),
        "required": is_required_of(user),
        "error": error,
        "done": "done" in request.GET,
        "apps": offers_oauth(),
    }
    return page(request, "mcp_oauth/second_factor.html", context, status=status)


def _done(request: HttpRequest, user: Any) -> HttpResponse:
    if request.POST.get("do") == "codes":
        return _shown(request, factors.new_codes(user), reverse(_OWN))
    if request.POST.get("do") == "remove" and not is_required_of(user):
        factors.remove(user, actor=user)
        request.session.pop(PASSED, None)
    return HttpResponseRedirect(reverse(_OWN) + "?done=1")


def _save(request: HttpRequest, held: Pending | None, user: Any, secret: str, step: int) -> HttpResponse:
    try:
        codes = factors.set_up(user, secret, step)
    except IntegrityError:
        # A concurrent request has already set up an app.
        return HttpResponseRedirect(reverse("mcp_oauth:second_factor_code" if held else _OWN))
    request.session.pop(SECRET, None)
    if held is not None:
        finish(request, held)
    request.session[PASSED] = True
    return _shown(request, codes, held.following if held else reverse(_OWN))


def _shown(request: HttpRequest, codes: list[str], following: str) -> HttpResponse:
    return page(request, "mcp_oauth/second_factor_codes.html", {"codes": codes, "following": following})


def _secret(request: HttpRequest) -> str:
    """Return the session's unconfirmed secret.

    The secret is encrypted, because sessions are stored in the database.
    """
    try:
        secret: str = decrypt(request.session[SECRET])
    except (KeyError, Unsealed):
        secret = generate_totp_secret()
        request.session[SECRET] = encrypt(secret)
    return secret


def _typed(request: HttpRequest) -> str:
    return str(normalize_user_code(request.POST.get("code", "")[:40]))


def _refusal(outcome: factors.CodeOutcome) -> tuple[str, int]:
    if not outcome.wait:
        return WRONG, 200
    return f"Too many wrong codes. Try again in {-(-outcome.wait // 60)} minutes.", 429


def _expired_login(request: HttpRequest) -> HttpResponse:
    reason = "This login has expired or is already complete."
    context = {"reason": reason, "login": login_address()}
    return page(request, "mcp_oauth/not_logged_in.html", context, status=400)
