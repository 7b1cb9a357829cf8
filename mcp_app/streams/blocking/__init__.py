"""Access to Redis without an event loop, for admin pages, commands and the main process of workers."""
