"""Definitions in code: decorators, schemas from type hints, and the registry."""
