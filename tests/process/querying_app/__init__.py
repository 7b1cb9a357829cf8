"""An app with a Celery task of its own and a tool of which only one call may run at once."""
