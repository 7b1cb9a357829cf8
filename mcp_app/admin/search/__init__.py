"""One box that finds anything: entries, traffic, people, keys, settings, pages, and the documents."""
