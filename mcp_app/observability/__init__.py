"""Log records, spans, correlation, redaction and rollup counts."""
