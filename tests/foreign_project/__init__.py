"""A third-party project to which this server is added as docs/embedding.md describes."""
