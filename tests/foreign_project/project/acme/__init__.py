"""The shop of Acme: an ordinary Django project that has never heard of MCP."""

from .celery import app as celery_app

__all__ = ("celery_app",)
