"""The REST API under ``/api/``: what the admin does, by the same services and permissions, for programs."""
