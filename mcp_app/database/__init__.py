"""Access to the database: queries, threads and their connections, the database clock, bounded waits."""
