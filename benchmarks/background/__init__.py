"""Background calls, measured beside Celery alone: the tools, the peer, the load and the rows."""
