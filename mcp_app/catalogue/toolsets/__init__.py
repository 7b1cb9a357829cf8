"""Toolsets as administrators edit them. ``snapshots/toolsets.py`` builds what clients see."""
