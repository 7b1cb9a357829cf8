"""Display of logged messages in lists and pages."""
