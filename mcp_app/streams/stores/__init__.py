"""The stores on Redis, and stores in memory for a single process."""
