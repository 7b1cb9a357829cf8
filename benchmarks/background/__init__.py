"""Background calls compared with Celery alone: the tools, the peer, the load and the rows."""
