"""An app with one entry of each kind that records the SQL statements of its process."""
