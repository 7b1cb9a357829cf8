"""The deployable project: settings, URLs, servers and the supervisor; wiring only, no protocol."""
