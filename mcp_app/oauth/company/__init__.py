"""Login with an identity provider on this server's login page. Needs the library of the extra ``sso``."""
