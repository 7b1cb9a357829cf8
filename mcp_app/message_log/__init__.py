"""The message log: lines in memory, in Redis and in the database, searched, counted and removed."""
