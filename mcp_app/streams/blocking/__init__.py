"""Access to Redis without an event loop: for admin pages, commands and the worker's main process."""
