"""JSON Schema and strict JSON: compilation, bounds, parsing."""
