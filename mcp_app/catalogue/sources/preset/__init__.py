"""Presets: an existing tool under another name, with some arguments fixed."""
