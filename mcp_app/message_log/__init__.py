"""The message log: buffering, transport and storage of log lines, search, counts and retention."""
