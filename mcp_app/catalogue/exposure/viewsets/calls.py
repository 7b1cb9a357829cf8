"""Execution of an action for one call: request, view, and response as a result.

The project's class is never changed. The view handles the whole request except authentication, because the
caller is already authenticated.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import orjson
from django.conf import settings
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponseBase
from django.http.request import validate_host
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from mcp_app import conf
from mcp_app.catalogue.definitions.content import Audio, File, Image, ToolError, ToolResult
from mcp_app.catalogue.exposure.adapters import Prepare
from mcp_app.catalogue.exposure.viewsets.actions import Action, untouched
from mcp_app.catalogue.exposure.viewsets.arguments import FORM, WHOLE, Arguments
from mcp_app.catalogue.exposure.viewsets.picking import FIELDS, picked
from mcp_app.catalogue.exposure.viewsets.routes import Address, Route, address_of

STATUS: Final = "django-mcp/httpStatus"
PRINCIPAL: Final = "mcp_principal"
# The content class for the first part of a media type. Other types become files.
_MADE: Final[dict[str, type[Image | Audio | File]]] = {"image": Image, "audio": Audio}


class _Caller(BaseAuthentication):
    """An authenticator that accepts the tool's caller.

    The view's own authenticators only decide how anonymous users are refused.
    """

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        user = request._request.user
        return None if user.is_anonymous else (user, getattr(request._request, PRINCIPAL))

    def authenticate_header(self, request: Request) -> Any:
        # The header of the view's first authenticator decides between 401 and 403.
        view = request.parser_context["view"]
        own = type(view).get_authenticators(view)
        return own[0].authenticate_header(request) if own else None


@dataclass(frozen=True, slots=True, eq=False)
class Exposed:
    """An action as a tool. ``url`` has the values of route variables that are not arguments."""

    action: Action
    prefix: str
    arguments: Arguments
    url: Mapping[str, Any]
    prepare: Prepare | None
    _views: dict[Any, Any] = field(default_factory=dict)

    def __call__(self, given: dict[str, Any], context: Any) -> ToolResult:
        """Run the action as the caller's user, and return the response as a tool result."""
        user = context.user
        if not user.is_anonymous and not user.is_active:
            raise ToolError("This account is not active.")
        given = self.arguments.as_requested(given)
        names = given.pop(FIELDS, None) if self.arguments.picks else None
        values = {name: _text(given[name]) for name in self.arguments.path if name in given}
        address = address_of(self.action, self.prefix, {**self.url, **values})
        if address is None:
            return _failure(404, "Not Found", {"detail": "Not found."})
        request = _request(self.action, address, *self._sent(given))
        request.user = user
        setattr(request, PRINCIPAL, context.principal)
        try:
            with self._prepared(request, context):
                response = self._view(address.route)(request, **address.kwargs)
                if names and response.status_code < 400 and hasattr(response, "data"):
                    response.data = picked(response.data, names)
                return _result(response, request)
        except (BadRequest, SuspiciousOperation) as error:
            return _failure(400, "Bad Request", {"detail": str(error)} if settings.DEBUG else {})

    def _prepared(self, request: WSGIRequest, context: Any) -> AbstractContextManager[Any]:
        """Return the context manager in which the view runs, from ``prepare`` if there is one."""
        found = None if self.prepare is None else self.prepare(request, context)
        return nullcontext() if found is None else found

    def _sent(self, given: Mapping[str, Any]) -> tuple[str, str, bytes]:
        """Return query string, media type and body."""
        query = [
            pair
            for name, is_joined in self.arguments.query.items()
            for pair in _pairs(name, given.get(name), is_joined=is_joined)
        ]
        kind = self.arguments.content_type if self.arguments.has_body else ""
        return urlencode(query), kind, self._body(given) if kind else b""

    def _body(self, given: Mapping[str, Any]) -> bytes:
        if self.arguments.is_whole:
            body = given.get(WHOLE, {})
        else:
            elsewhere = {*self.arguments.path, *self.arguments.query}
            body = {name: value for name, value in given.items() if name not in elsewhere}
        if self.arguments.content_type == FORM and isinstance(body, dict):
            return urlencode([pair for name in body for pair in _pairs(name, body[name])]).encode()
        return orjson.dumps(body)

    def _view(self, route: Route) -> Any:
        """Return the view function, in a transaction if the project wraps requests in one."""
        if route not in self._views:
            with untouched(self.action.viewset):
                kwargs = dict(route.callback.initkwargs if route.callback else self.action.initkwargs)
                if route.callback is None:
                    kwargs["detail"] = self.action.detail
                kwargs["get_authenticators"] = lambda: [_Caller()]
                actions = {self.action.method: self.action.name}
                self._views[route] = self.action.viewset.as_view(actions, **kwargs)
        return BaseHandler().make_view_atomic(self._views[route])


def _pairs(name: str, value: Any, *, is_joined: bool = False) -> list[tuple[str, str]]:
    """Return the pairs of a value for a query or form.

    A list becomes one pair per item, or one pair with commas if ``is_joined``.
    """
    texts = [_text(item) for item in (value if isinstance(value, list) else [value]) if item is not None]
    return [(name, ",".join(texts))] if is_joined and texts else [(name, text) for text in texts]


def _text(value: Any) -> str:
    """Return an argument as text for a URL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return orjson.dumps(value).decode() if isinstance(value, dict) else str(value)


def _request(action: Action, address: Address, query: str, kind: str, body: bytes) -> WSGIRequest:
    scheme, host = _site()
    server = urlsplit(f"//{host}")
    port = server.port or (443 if scheme == "https" else 80)
    environ = {
        "REQUEST_METHOD": action.method.upper(),
        "SCRIPT_NAME": "",
        "PATH_INFO": address.path.encode().decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": server.hostname or "localhost",
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": host,
        "HTTP_ACCEPT": "application/json, */*;q=0.1",
        "wsgi.url_scheme": scheme,
        "wsgi.input": BytesIO(body),
    }
    if kind:
        environ |= {"CONTENT_TYPE": kind, "CONTENT_LENGTH": str(len(body))}
    request = WSGIRequest(environ)
    request.resolver_match = address.match
    return request


def _site() -> tuple[str, str]:
    """Return scheme and host for links, from the public address if ALLOWED_HOSTS includes its host."""
    public = urlsplit(conf.get().public_url)
    allowed = settings.ALLOWED_HOSTS
    if public.hostname and validate_host(public.hostname, allowed):
        return public.scheme, public.netloc
    named = next((host.lstrip(".") for host in allowed if host.strip("*.")), "localhost")
    return public.scheme or "http", named


def _result(response: HttpResponseBase, request: WSGIRequest) -> ToolResult:
    if callable(render := getattr(response, "render", None)):
        response = render()
    status, reason = response.status_code, response.reason_phrase
    content = _content(response)
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    made = _MADE.get(kind.partition("/")[0], File)
    # An empty image or audio with status 200 is refused below, as in the result of other tools.
    if not content and (made is File or status != 200):
        text = f"{status} {reason}" + (f": {response['Location']}" if "Location" in response else "")
        return ToolResult(text, is_error=status >= 400, meta={STATUS: status})
    if kind == "application/json" or kind.endswith("+json"):
        body = orjson.loads(content)
        return (
            _failure(status, reason, body)
            if status >= 400
            else ToolResult(structured={"result": None} if body is None else body, meta={STATUS: status})
        )
    block = (
        content.decode(response.charset, "replace")
        if kind.startswith("text/")
        else made(content, kind, uri=request.build_absolute_uri())
    )
    return ToolResult([block], is_error=status >= 400, meta={STATUS: status})


def _failure(status: int, reason: str, body: Any) -> ToolResult:
    """Return an error result with the status and the body as text, and the body as structured content."""
    text = f"{status} {reason}" + (f": {orjson.dumps(body).decode()}" if body else "")
    return ToolResult(text, structured=body or None, is_error=True, meta={STATUS: status})


def _content(response: Any) -> bytes:
    if not response.streaming:
        return bytes(response.content)
    limit, content = conf.get().max_result_bytes, b""
    try:
        for chunk in response:
            content += chunk
            if len(content) > limit:
                raise ToolError(f"The answer is too large: more than {limit} bytes.")
    finally:
        response.close()
    return content
