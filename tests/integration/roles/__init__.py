"""The table of docs/roles.md against every request to the server, for every kind of user (S22)."""
