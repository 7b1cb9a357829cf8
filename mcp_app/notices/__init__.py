"""Notifications about open tasks: by e-mail and webhook from a worker, in the browser from an open page."""
