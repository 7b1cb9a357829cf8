"""JSON Schema and JSON: compiled, bounded and read strictly."""
