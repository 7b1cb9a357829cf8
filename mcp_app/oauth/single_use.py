"""Single use of assertions and consent decisions across processes, enforced by a unique database row."""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.db import IntegrityError, transaction

from mcp_app.oauth.models import UsedAssertion


def use(what: str, until: datetime) -> bool:
    """Record that ``what`` was used. Return False if it has already been used.

    The record is a hash, stored until the time ``until``.
    """
    digest = hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest()
    try:
        with transaction.atomic():
            UsedAssertion.objects.create(digest=digest, expires_at=until)
    except IntegrityError:
        return False
    return True
