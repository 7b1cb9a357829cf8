"""The shop of Acme: an ordinary Django project that has never heard of MCP."""
