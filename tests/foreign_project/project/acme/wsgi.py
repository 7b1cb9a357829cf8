"""WSGI, as Django writes it."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "acme.settings")

application = get_wsgi_application()
