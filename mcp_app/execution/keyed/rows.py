"""The rows of calls with an idempotency key: reserve, find, finish and delete."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from mcp_app import conf
from mcp_app.database import clock
from mcp_app.models import KeyedCall
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.refusals import Code, refused

# A principal's older keys are deleted.
MAX_PER_PRINCIPAL: Final = 500
# A longer result is replaced by a note that the call succeeded.
MAX_RESULT_BYTES: Final = 256 * 1024
_SLICE: Final = 200
TOO_LONG: Final = (
    "The first request with this idempotency key finished, and its result of {} bytes is too long to be kept."
)
REUSED: Final = "This idempotency key was used for another call: use a new one."


@dataclass(frozen=True, slots=True)
class Place:
    """The row of a key. If ``is_new``, this request runs the call; else an earlier request does or did.

    Without ``result`` and ``call_id`` the call runs in a web process, or is lost if ``is_lost``.
    """

    id: int
    is_new: bool
    result: dict[str, Any] | None = None
    call_id: UUID | None = None
    is_lost: bool = False


def exists(principal: str, key: str) -> bool:
    """Return True if a key is in use."""
    name = hashlib.sha256(key.encode()).hexdigest()
    return KeyedCall.objects.filter(principal=principal, key=name, expires_at__gt=clock.now()).exists()


def reserve(principal: str, key: str, digest: str, seconds: float) -> Place:
    """Return the row of a key, and create it for a call of at most ``seconds`` if there is none.

    Raise McpError with KEY_REUSED if the key belongs to another call.
    """
    name = hashlib.sha256(key.encode()).hexdigest()
    rows = KeyedCall.objects.filter(principal=principal, key=name)
    with transaction.atomic():
        rows.filter(expires_at__lte=clock.now()).delete()
        row, is_new = KeyedCall.objects.get_or_create(
            principal=principal,
            key=name,
            defaults={
                "digest": digest,
                "runs_until": clock.now(seconds),
                "created_at": clock.now(),
                "expires_at": clock.now(seconds + conf.get().idempotency_key_seconds),
            },
        )
        if is_new:
            _delete_oldest(principal)
    if is_new:
        return Place(row.pk, is_new=True)
    if row.digest != digest:
        raise refused(Code.KEY_REUSED, REUSED)
    return _place(row)


def read(place: Place) -> Place | None:
    """Return the current state of a row, or None if it was deleted."""
    row = KeyedCall.objects.filter(pk=place.id).first()
    return None if row is None else _place(row)


def take_over(place: Place, seconds: float) -> Place:
    """Return a row as new for another call of at most ``seconds``, unless another request was faster."""
    rows = KeyedCall.objects.filter(pk=place.id)
    if rows.filter(call_id=place.call_id).update(call_id=None, runs_until=clock.now(seconds)):
        return Place(place.id, is_new=True)
    row = rows.first()
    # Without a row, the other request did not run, and ``read`` finds nothing.
    return replace(place, call_id=None) if row is None else _place(row)


def attach(place: int, call_id: UUID) -> None:
    """Record the background call that a request with a key has started."""
    KeyedCall.objects.filter(pk=place).update(call_id=call_id)


def finish(place: int, result: dict[str, Any]) -> None:
    """Keep the result of a call that ran in a web process."""
    encoded = jsonrpc.encode(result)
    if len(encoded) > MAX_RESULT_BYTES:
        note = {"type": "text", "text": TOO_LONG.format(len(encoded))}
        same = {name: result[name] for name in ("isError",) if name in result}
        encoded = jsonrpc.encode({"content": [note], **same})
    KeyedCall.objects.filter(pk=place).update(result=encoded)


def lose(place: int) -> None:
    """Record that a call was stopped, so that its outcome is unknown."""
    KeyedCall.objects.filter(pk=place).update(runs_until=clock.now())


def release(place: int) -> None:
    """Free the key of a call that did not run."""
    KeyedCall.objects.filter(pk=place).delete()


def purge() -> int:
    """Delete expired rows, and return how many were deleted."""
    expired, removed = KeyedCall.objects.filter(expires_at__lte=clock.now()), 0
    while keys := list(expired.values_list("pk", flat=True)[:_SLICE]):
        removed += KeyedCall.objects.filter(pk__in=keys).delete()[0]
    return removed


def _delete_oldest(principal: str) -> None:
    rows = KeyedCall.objects.filter(principal=principal).order_by("-pk")
    oldest = rows.values_list("pk", flat=True)[MAX_PER_PRINCIPAL : MAX_PER_PRINCIPAL + 1].first()
    if oldest is not None:
        rows.filter(pk__lte=oldest).delete()


def _place(row: KeyedCall) -> Place:
    # orjson cannot parse integers beyond 64 bits.
    result = None if row.result is None else json.loads(bytes(row.result))
    is_running = KeyedCall.objects.filter(pk=row.pk, runs_until__gt=clock.now()).exists()
    is_lost = result is None and row.call_id is None and not is_running
    return Place(row.pk, is_new=False, result=result, call_id=row.call_id, is_lost=is_lost)
