"""Programs that log in as themselves: entered by an administrator, each bound to a service user (AUTH-51)."""
