"""The ``web_scrape`` tool: a public web page's main content, read through the guarded fetch."""
