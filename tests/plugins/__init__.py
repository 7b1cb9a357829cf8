"""Plugins of pytest and the programs that choose, sort and repeat tests."""
