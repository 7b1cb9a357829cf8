"""Presets: a tool under another name, with some arguments fixed."""
