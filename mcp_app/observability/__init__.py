"""Log records, spans, correlation and redaction."""
