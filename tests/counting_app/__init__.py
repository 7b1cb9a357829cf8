"""An app with one entry of each kind that writes down the SQL statements of its process."""
