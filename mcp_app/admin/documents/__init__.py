"""Admin pages of OpenAPI documents: import, choice of operations, and updates."""
