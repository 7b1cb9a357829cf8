"""Resources of the library's threads."""
