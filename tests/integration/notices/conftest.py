"""The seeded rows of the admin's tests, for notifications about pending calls."""

from tests.integration.admin.conftest import client_of, root, seeded, seeded_once, viewer

__all__ = ["client_of", "root", "seeded", "seeded_once", "viewer"]
