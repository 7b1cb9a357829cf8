"""Login with an identity provider on our own login page, by the library of the extra ``sso``."""
