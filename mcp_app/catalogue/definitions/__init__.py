"""What code defines: decorators, the schemas made from type hints, and the registry."""
