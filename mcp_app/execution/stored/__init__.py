"""The rows of background calls, and the order in which the calls start. Only this package writes the rows."""
