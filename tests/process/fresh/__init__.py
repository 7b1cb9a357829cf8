"""A project whose serializer reads its choices from a table that may not exist yet."""
