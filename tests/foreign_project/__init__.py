"""A project of somebody else, to which this server is added as docs/embedding.md says."""
