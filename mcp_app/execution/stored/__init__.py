"""The rows of background calls and the order in which they start. Only this package writes them."""
