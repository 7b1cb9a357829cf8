"""A project whose serializer reads its choices from a table, before any table exists."""
