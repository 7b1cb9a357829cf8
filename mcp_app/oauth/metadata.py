"""Metadata of the authorization server (RFC 8414), and CORS for its endpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from mcp_app import conf
from mcp_app.auth.own_addresses import offers_oauth, origin
from mcp_app.oauth import announced
from mcp_app.oauth.machines.assertions import METHOD, SIGNED_BY
from mcp_app.oauth.registration import AUTH_METHODS, GRANTS
from mcp_app.protocol.scopes import BASIC

_CORS: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "authorization, content-type, mcp-protocol-version",
    "Access-Control-Expose-Headers": "www-authenticate, retry-after",
    "Access-Control-Max-Age": "600",
}
View = Callable[..., Any]


def issuer(request: HttpRequest) -> str:
    """Return the issuer for the host to which the request was sent."""
    return origin(request.META.get("HTTP_HOST", ""))


def only_if(condition: Callable[[], bool]) -> Callable[[View], View]:
    """Wrap a view to respond with 404 unless the condition holds."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not condition():
                raise Http404
            answer: HttpResponse = view(request, *args, **kwargs)
            return answer

        return guarded

    return decorate


only_when_offered = only_if(offers_oauth)


def for_programs(*methods: str) -> Callable[[View], View]:
    """Wrap an endpoint that scripts of any origin may call, without cookies (AUTH-23)."""

    def decorate(view: View) -> View:
        @wraps(view)
        def open_to_scripts(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.method == "OPTIONS":
                response = HttpResponse(status=204)
            elif request.method not in methods:
                words = f"This method is not served here. Use {' or '.join(methods)}."
                response = JsonResponse({"error": "invalid_request", "error_description": words}, status=405)
                response["Allow"] = ", ".join((*methods, "OPTIONS"))
            else:
                response = view(request, *args, **kwargs)
            for name, value in _CORS.items():
                response.headers.setdefault(name, value)
            response.headers.setdefault("Access-Control-Allow-Methods", ", ".join(methods))
            return response

        return only_when_offered(csrf_exempt(open_to_scripts))

    return decorate


@for_programs("GET", "HEAD")
def server_metadata(request: HttpRequest, door: str = "") -> HttpResponse:
    """Return the metadata document of RFC 8414 without waiting for the database (AUTH-24).

    The document is the same for every ``door``. It lists the basic scopes only, because many clients request
    every listed scope.
    """
    base = issuer(request)
    signed = announced.signing_machines()
    methods = [*AUTH_METHODS, METHOD] if signed else list(AUTH_METHODS)
    document: dict[str, Any] = {
        "issuer": base,
        "authorization_endpoint": f"{base}/oauth/authorize",
        "token_endpoint": f"{base}/oauth/token",
        "revocation_endpoint": f"{base}/oauth/revoke",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [*GRANTS, "client_credentials"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        "scopes_supported": [*BASIC, "offline_access"],
        "authorization_response_iss_parameter_supported": True,
    }
    if signed:
        # Publish these members only if a machine signs assertions, because the Python SDK from 1.9.0 to
        # 1.12.3 rejects documents that contain them.
        for endpoint in ("token", "revocation"):
            document[f"{endpoint}_endpoint_auth_signing_alg_values_supported"] = list(SIGNED_BY)
    if announced.documents_announced():
        document["client_id_metadata_document_supported"] = True
    if conf.get().oauth_registration:
        document["registration_endpoint"] = f"{base}/oauth/register"
    headers = {"Cache-Control": "public, max-age=300", "Vary": "Host"}
    return JsonResponse(document, headers=headers)
