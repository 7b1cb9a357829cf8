"""An app whose code raises whatever Python can raise."""
