"""Limits on calls by rules: matching, counting over all processes, answers and changes.

``execution.admission`` is the only caller that counts. This package knows no call, only its caller and tool.
"""
