"""The deployable project: settings, URLs, servers and the supervisor; wiring only, no protocol.

Whatever runs here, a command and a shell too, hands jobs to the Celery of this project: so it is made first.
"""

from mcpsite.celery import app as celery_app

__all__ = ("celery_app",)
