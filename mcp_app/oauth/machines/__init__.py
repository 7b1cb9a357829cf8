"""Programs that log in as themselves: entered by an administrator, each with a service user (AUTH-51)."""
