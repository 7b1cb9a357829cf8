"""What may be used once, whichever processes are asked at the same moment: the first row stands."""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.db import IntegrityError, transaction

from mcp_app.oauth.models import UsedAssertion


def use(what: str, until: datetime) -> bool:
    """Whether ``what`` is used for the first time; remembered until then, as a hash."""
    digest = hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest()
    try:
        with transaction.atomic():
            UsedAssertion.objects.create(digest=digest, expires_at=until)
    except IntegrityError:
        return False
    return True
