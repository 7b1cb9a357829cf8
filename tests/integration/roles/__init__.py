"""The table of docs/roles.md against every way into the server, for everybody (S22)."""
