"""Pages about a user: saved searches of the log, entries that the user can use, and the time zone."""
