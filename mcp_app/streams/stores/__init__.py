"""What is kept in Redis, and the twins that keep it in the memory of a single process."""
