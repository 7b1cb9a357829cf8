"""Pages of statistics and errors, from counts by the log writer. Each number links to its messages."""
