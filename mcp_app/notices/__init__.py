"""Notifications about open tasks.

Workers send them by e-mail and webhook. Open pages show them in the browser.
"""
