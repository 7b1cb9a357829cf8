"""In English, the language of all pages."""
