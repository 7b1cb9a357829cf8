"""The short cut, which answers requests inside the HTTP parser's callback (decision 0039)."""
