"""An app with its own Celery task and a tool limited to one running call."""
