"""The REST API under ``/api/``: the admin's functions for programs, by the same services and permissions."""
