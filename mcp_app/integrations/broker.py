"""The transport of Celery's broker, for ``CELERY_BROKER_TRANSPORT``."""

from __future__ import annotations

from mcp_app.execution.background.broker import BrokerTransport as Transport

__all__ = ["Transport"]
