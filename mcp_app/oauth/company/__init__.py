"""Log in by an identity provider on our own login page, by the library that the extra ``sso`` brings."""
