"""OpenAPI documents in the database: storing, import of their operations as tools, and updates."""
