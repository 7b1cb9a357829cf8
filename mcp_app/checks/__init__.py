"""Django's system checks of this app: mistakes that would only be noticed later."""
