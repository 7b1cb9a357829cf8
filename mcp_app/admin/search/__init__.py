"""Global search: entries, traffic, people, keys, settings, pages and documents."""
