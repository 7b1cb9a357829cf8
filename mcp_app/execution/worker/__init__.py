"""The code of a Celery worker: attempts, the renewal of their leases, and the size of its process pool."""
