"""An app whose code raises every kind of Python exception."""
