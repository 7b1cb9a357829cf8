"""Error responses as ``application/problem+json`` (RFC 9457). They contain no internal details."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import (
    NON_FIELD_ERRORS,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    ValidationError,
)
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from mcp_app.api.formats import JsonRenderer
from mcp_app.catalogue.documents.updating import DocumentMoved
from mcp_app.catalogue.sources.http.openapi.reading import DocumentError
from mcp_app.catalogue.transfer import CatalogueMoved, ImportForbidden, TransferRefused
from mcp_app.execution.background.documents import NoWorker
from mcp_app.execution.services import RetryRefused
from mcp_app.protocol.errors import Forbidden, McpError, ServerNotFound, Unavailable
from mcp_app.protocol.refusals import ANSWERS, Code
from mcp_app.streams.base import StreamsError

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
# Statuses that tell the client to try again later.
PASSING = (429, 503)
# Refusals of the whole server or toolset of a call.
UNREACHABLE = (Forbidden, ServerNotFound)
NOT_VALID = "Some values are invalid."
BROKEN = "Internal server error. The server's log has the details."
MALFORMED = "The request is malformed. Check its Host header."

log = logging.getLogger("mcp.api")


class StateConflict(exceptions.APIException):
    """Raised if the current state of an object does not allow the action."""

    status_code = 409
    default_detail = "The state of the object does not allow this."


def answer(error: Exception, context: dict[str, Any]) -> Response:
    """Return the response to an exception that a view raised."""
    set_rollback()
    if isinstance(error, exceptions.APIException):
        return _of_framework(error)
    for kinds, status, words in _PLAIN:
        if isinstance(error, kinds):
            wait = RETRY_SECONDS if status in PASSING else 0
            return problem(status, words or str(error), wait=wait)
    if isinstance(error, ValidationError):
        return problem(400, NOT_VALID, errors=errors_of(error))
    if isinstance(error, TransferRefused):
        problems = [{"entry": each.entry, "field": each.field, "text": each.text} for each in error.problems]
        return problem(422, "The catalogue file cannot be imported. Nothing was changed.", problems=problems)
    if isinstance(error, ImportForbidden):
        return problem(403, "You lack permissions for some changes in the file.", missing=error.permissions)
    if isinstance(error, RetryRefused):
        return _of_retry(error)
    if isinstance(error, McpError) and error.refusal:
        status = ANSWERS[Code(error.refusal)].status
        return problem(status, error.message, wait=error.retry_after, refusal=error.refusal)
    if isinstance(error, UNREACHABLE):
        return problem(error.http_status, error.message)
    if isinstance(error, (OperationalError, InterfaceError, StreamsError)):
        log.warning("Request refused temporarily: %s", error)
        return problem(503, "The database or Redis is unavailable. Try again shortly.", wait=RETRY_SECONDS)
    if isinstance(error, Unavailable):
        return problem(503, error.message, wait=RETRY_SECONDS)
    return _broken(error, context)


_PLAIN: tuple[tuple[Any, int, str], ...] = (
    (Http404, 404, "Not found."),
    (PermissionDenied, 403, ""),
    (RequestDataTooBig, 413, "The body is too large."),
    (SuspiciousOperation, 400, "The request is malformed."),
    (NoWorker, 503, ""),
    (DocumentMoved, 409, ""),
    (DocumentError, 422, ""),
    (CatalogueMoved, 409, "The catalogue has changed in the meantime. Do another dry run."),
)


def problem(status: int, detail: str, *, wait: float = 0.0, **more: Any) -> Response:
    """Return a problem response. ``more`` are additional members of its body."""
    data = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    response = Response({**data, **more}, status=status, content_type=MEDIA_TYPE)
    if wait:
        response["Retry-After"] = str(math.ceil(wait))
    return response


def _of_retry(error: RetryRefused) -> Response:
    """Return the response to a refused retry. The status is 409 unless a later attempt may succeed."""
    if not error.code:
        return problem(409, str(error))
    status = ANSWERS[Code(error.code)].status
    status = status if status in PASSING else 409
    return problem(status, str(error), wait=error.retry_after, refusal=error.code)


def errors_of(error: ValidationError) -> dict[str, list[str]]:
    """Map fields to the messages in a service's error. Messages without a field have the key ``""``."""
    if not hasattr(error, "error_dict"):
        return {"": error.messages}
    return {"" if name == NON_FIELD_ERRORS else name: texts for name, texts in error.message_dict.items()}


def _of_framework(error: exceptions.APIException) -> Response:
    if isinstance(error, exceptions.ValidationError):
        return problem(error.status_code, NOT_VALID, errors=_flat(error.detail))
    wait = getattr(error, "wait", None) or 0.0
    response = problem(error.status_code, _text(error.detail), wait=wait)
    if challenge := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = challenge
    return response


def _flat(detail: Any, name: str = "") -> dict[str, list[str]]:
    """Map the path of each field, such as ``arguments.size``, to its messages."""
    if not isinstance(detail, Mapping):
        return {name: [str(text) for text in (detail if isinstance(detail, list) else [detail])]}
    found: dict[str, list[str]] = {}
    for inner, texts in detail.items():
        plain = "" if inner == "non_field_errors" else str(inner)
        found |= _flat(texts, ".".join(part for part in (name, plain) if part))
    return found


def _text(detail: Any) -> str:
    return " ".join(str(text) for text in detail) if isinstance(detail, list) else str(detail)


def _broken(error: Exception, context: dict[str, Any]) -> Response:
    request = context["request"]
    log.error("%s %s failed", request.method, request.path, exc_info=error)
    got_request_exception.send(sender=None, request=request)
    return problem(500, BROKEN)


def is_api(request: HttpRequest) -> bool:
    """Return True if the requested path is below the URL of the API."""
    return request.path.startswith(reverse("mcp_api:root"))


def document(status: int, detail: str) -> HttpResponse:
    """Return a problem document as the response to a request that no view of the API handles."""
    body = JsonRenderer().render(problem(status, detail).data)
    return HttpResponse(body, status=status, content_type=MEDIA_TYPE)
