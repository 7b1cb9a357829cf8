"""Access to the database: queries, threads and their connections, clocks, waits that end."""
