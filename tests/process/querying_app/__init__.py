"""An app with tools that query the database."""
