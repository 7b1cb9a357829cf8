"""Single use of assertions and answers across processes, by a unique row."""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.db import IntegrityError, transaction

from mcp_app.oauth.models import UsedAssertion


def use(what: str, until: datetime) -> bool:
    """Record the first use of ``what`` until ``until``, as a hash; return False if it was used before."""
    digest = hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest()
    try:
        with transaction.atomic():
            UsedAssertion.objects.create(digest=digest, expires_at=until)
    except IntegrityError:
        return False
    return True
