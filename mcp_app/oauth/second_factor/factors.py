"""The only module that writes second factors: set up, check, recover, remove. Each change is audited.

The library stores the rows and computes the codes. Used codes are recorded here, because the library records
them in a cache that processes may not share.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Final

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value
from allauth.mfa.utils import decrypt
from django.db import transaction

from mcp_app.models import audit
from mcp_app.sealing import Unsealed

STEP_SECONDS: Final = 30
# A code is valid for one time step before and after its own, because clocks differ and people type slowly.
TOLERANCE: Final = (-1, 0, 1)
MAX_WRONG: Final = 5
LOCK_SECONDS: Final = 600

log = logging.getLogger("mcp.auth")


@dataclass(frozen=True, slots=True)
class CodeOutcome:
    """The result of a code check.

    ``wait`` is the number of seconds for which codes are refused after too many wrong ones.
    """

    proven: bool
    wait: int = 0


def factor_of(user: Any) -> Authenticator | None:
    """Return the user's authenticator app, or None."""
    return Authenticator.objects.filter(user_id=user.pk, type=Authenticator.Type.TOTP).first()


def set_up(user: Any, secret: str, step: int) -> list[str]:
    """Store an authenticator app and return its recovery codes.

    ``step`` is the time step of the code that confirmed the app.
    """
    with transaction.atomic():
        row = TOTP.activate(user, secret).instance
        row.data |= {"step": step, "wrong": []}
        row.save(update_fields=["data"])
        codes: list[str] = RecoveryCodes.activate(user).generate_codes()
        _audit(user, user, "set_up")
    return codes


def new_codes(user: Any) -> list[str]:
    """Replace the recovery codes and return the new ones."""
    with transaction.atomic():
        Authenticator.objects.filter(user_id=user.pk, type=Authenticator.Type.RECOVERY_CODES).delete()
        codes: list[str] = RecoveryCodes.activate(user).generate_codes()
        _audit(user, user, "new_codes")
    return codes


def codes_left(user: Any) -> int:
    """Return the number of unused recovery codes."""
    row = Authenticator.objects.filter(user_id=user.pk, type=Authenticator.Type.RECOVERY_CODES).first()
    try:
        return len(RecoveryCodes(row).get_unused_codes()) if row else 0
    except Unsealed:
        return 0


def remove(user: Any, *, actor: Any) -> bool:
    """Remove all second factors of a user. Return False if the user had none."""
    with transaction.atomic():
        removed, _ = Authenticator.objects.filter(user_id=user.pk).delete()
        if removed:
            _audit(actor, user, "remove")
    return bool(removed)


def prove(user: Any, code: str) -> CodeOutcome:
    """Check and use a code from the app, or a recovery code.

    After five wrong codes, all codes are refused for ten minutes.
    """
    with transaction.atomic():
        rows = {row.type: row for row in Authenticator.objects.select_for_update().filter(user_id=user.pk)}
        if not rows:
            return CodeOutcome(False)
        counted = rows.get(Authenticator.Type.TOTP) or next(iter(rows.values()))
        wrong = [at for at in counted.data.get("wrong", ()) if at > time.time() - LOCK_SECONDS]
        if len(wrong) >= MAX_WRONG:
            return CodeOutcome(False, _wait(wrong))
        proven = _is_spent(user, rows, code)
        wrong = [] if proven else [*wrong, time.time()]
        counted.data["wrong"] = wrong
        counted.save(update_fields=["data"])
        if len(wrong) >= MAX_WRONG:
            _audit(user, user, "lock")
            return CodeOutcome(False, _wait(wrong))
    return CodeOutcome(proven)


def right_step(secret: str, code: str, after: int = 0) -> int | None:
    """Return the time step of a code, or None.

    The step must be within TOLERANCE of the current step and later than ``after``.
    """
    now = int(time.time()) // STEP_SECONDS
    for step in (now + each for each in TOLERANCE):
        expected = format_hotp_value(hotp_value(secret, step))
        if step > after and compare_user_code(actual=code, expected=expected):
            return step
    return None


def _is_spent(user: Any, rows: dict[str, Authenticator], code: str) -> bool:
    app, recovery = rows.get(Authenticator.Type.TOTP), rows.get(Authenticator.Type.RECOVERY_CODES)
    try:
        if app is not None:
            step = right_step(decrypt(app.data["secret"]), code, app.data.get("step", 0))
            if step is not None:
                app.data["step"] = step
                app.record_usage()
                return True
        if recovery is not None and RecoveryCodes(recovery).validate_code(code):
            _audit(user, user, "recover")
            return True
    except Unsealed as why:
        log.warning("The second factor of user %s cannot be read (%s); it can be removed.", user.pk, why)
    return False


def _wait(wrong: list[float]) -> int:
    return max(1, int(wrong[0] + LOCK_SECONDS - time.time()) + 1)


def _audit(actor: Any, user: Any, what: str) -> None:
    audit(
        actor=actor, action=f"second_factor.{what}", object_kind="user", object_key=str(user.get_username())
    )
