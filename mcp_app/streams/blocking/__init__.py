"""Redis for code without an event loop: admin pages, commands, the worker's main process."""
