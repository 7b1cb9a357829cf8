"""Tells people what waits for them: by mail and webhook from a worker, by the browser from an open page."""
