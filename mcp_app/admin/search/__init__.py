"""The global search of the admin: entries, traffic, people, API keys, settings, pages and documents."""
