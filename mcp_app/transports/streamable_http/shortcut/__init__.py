"""The short cut: requests that are answered inside the HTTP parser's callback (decision 0039)."""
