"""Users' accounts at other servers: their sealed tokens, and the use and renewal of these tokens.

Tokens leave this package only inside ``egress.Secrets``.
"""
