"""Log records, spans, the correlation of log lines, redaction, and the grouping of errors."""
