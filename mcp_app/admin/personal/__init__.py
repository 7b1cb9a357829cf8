"""Personal data of users: saved searches of the log, visible entries, time zone."""
