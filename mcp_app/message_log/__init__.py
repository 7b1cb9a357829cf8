"""The message log: lines in memory, in Redis and in the database, search, counts and retention."""
