"""The rows of background calls: the only code that writes them, and the order in which they begin."""
