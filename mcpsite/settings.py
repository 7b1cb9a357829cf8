"""Django's settings. Values that can be configured come from environment.py."""

from __future__ import annotations

import logging
import sys
from dataclasses import fields as _fields
from datetime import timedelta
from importlib.util import find_spec

from csp import constants as csp

from mcp_app.conf import Settings as _Settings
from mcpsite import databases as _databases
from mcpsite import environment as _environment
from mcpsite import unfold as _unfold
from mcpsite.frame import bundles as _bundles
from mcpsite.http.compression import weak_etag as _weak_etag
from mcpsite.processes import data_folder as _data_folder
from mcpsite.processes.own_code import own_apps as _own_apps

ENVIRONMENT = _environment.read()
_data_folder.prepare_data_dir(ENVIRONMENT.data_dir)

BASE_DIR = _environment.BASE_DIR
DATA_DIR = ENVIRONMENT.data_dir
DEBUG = ENVIRONMENT.debug
SECRET_KEY = ENVIRONMENT.secret_key or _data_folder.stored_secret_key(DATA_DIR / "secret_key")
ALLOWED_HOSTS = list(ENVIRONMENT.hosts)
ROOT_URLCONF = "mcpsite.urls"
ASGI_APPLICATION = "mcpsite.asgi.application"

_HAS_COMPANY_LOGIN = find_spec("allauth") is not None
_HAS_SECOND_FACTOR = _HAS_COMPANY_LOGIN and find_spec("qrcode") is not None
INSTALLED_APPS = [
    # First, so that `runserver` is Daphne's. In other processes Daphne would cost 0.5 s and 30 MB, for
    # Twisted.
    *(["daphne"] if "runserver" in sys.argv[1:2] else []),
    "unfold",  # Before the admin, because it replaces the admin's templates.
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "rest_framework",
    "django_svelte_jsoneditor",
    "oauth2_provider",
    # The library for the company login, if it is installed.
    *(("allauth.account", "allauth.socialaccount") if _HAS_COMPANY_LOGIN else ()),
    *(("allauth.mfa",) if _HAS_SECOND_FACTOR else ()),
    "mcp_app",
    "mcp_app.oauth",
    "mcpsite.http.throttles.SiteConfig",  # Needed also by the commands `up` and `prepare`.
]
if ENVIRONMENT.demo:
    INSTALLED_APPS += ["mcp_app.contrib.web_tools", "mcp_app.contrib.demo"]
INSTALLED_APPS += _own_apps(ENVIRONMENT)

# Whether scripts and styles are served as bundles. A checkout has none, unless `make bundles` wrote them.
_BUNDLED = _bundles.are_current()
MIDDLEWARE = [
    "mcpsite.http.compression.CompressionMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    *(["mcpsite.frame.middleware.BundlesMiddleware"] if _BUNDLED else []),
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    *(["allauth.account.middleware.AccountMiddleware"] if _HAS_COMPANY_LOGIN else []),
    "mcp_app.integrations.second_factor.SecondFactorMiddleware",
    "mcp_app.integrations.time_zone.TimeZoneMiddleware",
    "mcpsite.http.patterns.PatternsMiddleware",
    "axes.middleware.AxesMiddleware",
]

UNFOLD = _unfold.UNFOLD
# If Unfold's login form was opened directly, it has no next page.
LOGIN_REDIRECT_URL = "admin:index"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [_environment.PACKAGE / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# Stores.
DATABASES = {
    "default": (
        _databases.from_url(ENVIRONMENT.database_url)
        if ENVIRONMENT.database_url
        else _databases.sqlite(DATA_DIR / "db.sqlite3")
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# The stored URL lets a command that runs beside `up` notify the processes of `up` about changes.
REDIS_URL = ENVIRONMENT.redis_url or _environment.running_redis_url(ENVIRONMENT.run_dir)
# The default cache stays local to each process: Redis never evicts data, so other apps could fill it.
_ALONE = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
_SHARED = {
    "BACKEND": "mcpsite.http.throttles.ThrottleCache",
    "LOCATION": REDIS_URL,
    "KEY_PREFIX": "mcp:throttle",
}
CACHES = {"default": _ALONE, "throttles": _SHARED if REDIS_URL else _ALONE}

# Language, time, files.
LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True
# These give the skin's own pages the same time format.
FORMAT_MODULE_PATH = ["mcpsite.formats"]
STATIC_URL = "static/"
# This folder replaces large files of the skin. The replacements load the original files from another URL.
_SCRIPTS = _unfold.PACKAGE / "static" / "unfold" / "js"
STATICFILES_DIRS = [
    # Before the skin and the apps, because a bundled module has the name of its source.
    *([_bundles.FOLDER] if _BUNDLED else []),
    _environment.PACKAGE / "skin",
    ("unfold/js/chart/whole", _SCRIPTS / "chart"),
    ("unfold/js/htmx/whole", _SCRIPTS / "htmx"),
]
MEDIA_ROOT = DATA_DIR / "uploads"
# Served directly from the packages, so that `make run` need not collect static files.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_ADD_HEADERS_FUNCTION = _weak_etag

# Mail is sent only if a server is configured. With Django's defaults, a server on this machine would be
# used.
globals().update(ENVIRONMENT.in_mail_settings)

# Security. Cookies and redirects depend on the public URL.
_HTTPS = ENVIRONMENT.public_url.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
# Redirect only behind a trusted proxy that reports https. Otherwise every page would redirect to itself.
SECURE_SSL_REDIRECT = _HTTPS and bool(ENVIRONMENT.trusted_proxies)
SECURE_HSTS_SECONDS = 31_536_000 if _HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _HTTPS
X_FRAME_OPTIONS = "DENY"
# S11: text from clients and tools must not run as a script, even if it gets into a page as markup. The skin
# compiles its own expressions (eval) and sets styles. Neither permits injected code to run.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [csp.SELF],
        "script-src": [csp.SELF, csp.UNSAFE_EVAL],
        "style-src": [csp.SELF, csp.UNSAFE_INLINE],
        "img-src": [csp.SELF, "data:"],
        "media-src": [csp.SELF, "data:"],
        "font-src": [csp.SELF, "data:"],
        "object-src": [csp.NONE],
        "base-uri": [csp.NONE],
        "form-action": [csp.SELF],
        "frame-ancestors": [csp.NONE],
    }
}
CSRF_TRUSTED_ORIGINS = [ENVIRONMENT.public_url] if ENVIRONMENT.public_url else []
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
# S22: wrong passwords lock an address for a while, whatever names were tried and even if a login succeeded
# in between. The lock is not by name, because then anybody could lock out an administrator.
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    # Before the backends that check passwords: for users with a second factor, a password is not enough.
    "mcp_app.integrations.second_factor.Gate",
    "django.contrib.auth.backends.ModelBackend",
]
AXES_HANDLER = "mcpsite.http.logins.OwnFailuresHandler"
AXES_LOCKOUT_PARAMETERS = ["ip_address"]
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = timedelta(minutes=10)
AXES_RESET_ON_SUCCESS = True
# Attempts while an address is locked neither extend the lock nor add a row for each name.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_LOCKOUT_TEMPLATE = "login_locked.html"
AXES_HTTP_RESPONSE_CODE = 429
AXES_ENABLE_ADMIN = False
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

MCP = {
    # The settings with the same name in the environment. The entries below adapt some of their values.
    **{
        item.name.upper(): getattr(ENVIRONMENT, item.name)
        for item in _fields(_Settings)
        if item.name in _environment.Environment.model_fields
    },
    "AUTH": ENVIRONMENT.auth,
    "ALLOWED_HOSTS": ENVIRONMENT.hosts,
    "LOOPBACK": ENVIRONMENT.is_loopback,
    "PUBLIC_URL": ENVIRONMENT.client_url,
    "OAUTH": ENVIRONMENT.offers_oauth,
    "OAUTH_REDIRECT_URIS": (
        "cursor://anysphere.cursor-mcp/oauth/callback",
        *ENVIRONMENT.oauth_redirect_uris,
    ),
    "MESSAGE_LOG_ROWS": ENVIRONMENT.log_rows,
    "REDIS_URL": REDIS_URL,
    "UPLOAD_DIRECTORY": str(MEDIA_ROOT),
    "UPSTREAM_SOCKET": ENVIRONMENT.bridge_socket,
    "CODE_FAULT_FILE": str(ENVIRONMENT.code_fault_file),
}

# The library of the authorization server. The tables of clients and tokens belong to mcp_app.
OAUTH2_PROVIDER = {
    "PKCE_REQUIRED": True,
    # The library's own check of redirect URIs. The check in mcp_app/oauth/redirects.py also allows loopback
    # addresses.
    "ALLOWED_REDIRECT_URI_SCHEMES": ["https"],
    "ROTATE_REFRESH_TOKEN": True,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
    **dict.fromkeys(
        (
            "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT",
            "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS",
            "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT",
            "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT",
            "COMPLIANT_BCP_RFC9700_PKCE_METHOD",
            "COMPLIANT_BCP_RFC9700_PKCE_REQUIRED",
            "COMPLIANT_BCP_RFC9700_REDIRECT_URI_MATCHING",
            "COMPLIANT_BCP_RFC9700_REDIRECT_URI_SCHEME",
            "COMPLIANT_BCP_RFC9700_REFRESH_TOKEN",
            "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE",
        ),
        True,
    ),
}
# The company login. The adapter identifies the user and leaves the library's tables empty.
SOCIALACCOUNT_ADAPTER = "mcp_app.integrations.socialaccount.Adapter"
# The second factor. The adapter seals secrets before they are stored.
MFA_ADAPTER = "mcp_app.integrations.mfa.Adapter"
OAUTH2_PROVIDER_APPLICATION_MODEL = "mcp_oauth.Client"
OAUTH2_PROVIDER_GRANT_MODEL = "mcp_oauth.AuthorizationCode"
OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL = "mcp_oauth.AccessToken"  # noqa: S105 - the name of a model
OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL = "mcp_oauth.RefreshToken"  # noqa: S105 - the name of a model

# Celery. Without Redis, as with a plain `runserver`, there is no worker.
CELERY_BROKER_URL = _environment.broker_url(REDIS_URL)
if REDIS_URL:
    CELERY_BROKER_TRANSPORT = "mcp_app.integrations.broker:Transport"
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]  # Pickled messages are refused without being read (S19).
CELERY_TIMEZONE = "UTC"
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A message is queued again if its process dies. This is checked every 2 seconds instead of every 100.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# A restart of Redis must not end running calls. The call of a message queued again is still leased (R11).
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 2.0
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 960,  # Longer than any tool may run, so that no running job is delivered again.
    "unacked_restore_interval": 2,
    "unacked_restore_throttle": 1,
    # Queueing must not wait for an unavailable broker, because the call's row is found and queued later
    # (R11).
    "max_retries": 1,
    "interval_start": 0.1,
    # Detects connections that a firewall has dropped silently (R11).
    "socket_timeout": 5.0,
    "socket_connect_timeout": 2.0,
    "socket_keepalive": True,
}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULER = "mcpsite.processes.beat:Scheduler"
CELERY_BEAT_SCHEDULE = {
    "purge-expired": {"task": "mcp_app.tasks.purge_expired", "schedule": 300.0},
    "refresh-upstreams": {"task": "mcp_app.tasks.refresh_upstreams", "schedule": 3600.0},
}

# S11, S14: data from clients and tools can neither forge lines nor control a terminal. Credentials are
# removed.
_LINES = {
    "text": "mcp_app.observability.logs.TextLines",
    "json": "mcp_app.observability.logs.JsonLines",
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": _LINES[ENVIRONMENT.log_format]}},
    "filters": {"refusals": {"()": "mcp_app.observability.logs.BriefRefusals"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["refusals"]},
    },
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django.server": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        # Anybody can send a wrong Host (400), and each such request would log a traceback.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        "axes": {"level": "WARNING"},
        "watchfiles": {"level": "WARNING"},
        # Logged in workers, too, which otherwise log only warnings and errors (`--loglevel`).
        "mcp.worker": {"level": "INFO"},
    },
}
# Gives Python's warnings the format of other log lines.
logging.captureWarnings(ENVIRONMENT.log_format == "json")
