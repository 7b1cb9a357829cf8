"""One box that finds anything: entries, sessions, calls, messages, people, keys, settings, pages."""
