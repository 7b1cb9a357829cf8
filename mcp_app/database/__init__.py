"""Database access: queries, threads and their connections, clocks, bounded waits."""
