"""The shop of Acme: an ordinary Django project without any MCP code."""
