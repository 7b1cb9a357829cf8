"""Settings of the test run: a temporary data folder, Redis only on request, fast password hashes."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from mcpsite.environment import REMEDIES

if "TEST_DATA_DIR" not in os.environ:
    _folder = tempfile.mkdtemp(prefix="mcp-tests-")
    os.environ["TEST_DATA_DIR"] = _folder
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)

# A developer's own settings must not reach the tests.
for _name in REMEDIES:
    os.environ.pop(_name, None)
os.environ["DATA_DIR"] = os.environ["TEST_DATA_DIR"]
os.environ["SECRET_KEY"] = "the-test-suite-signs-with-this-key-only-here"
os.environ["DATABASE_URL"] = os.environ.get("TEST_DATABASE_URL", "")

from mcpsite.settings import *  # noqa: E402, F403
from mcpsite.settings import ALLOWED_HOSTS, DATABASES, MIDDLEWARE  # noqa: E402

ALLOWED_HOSTS += ["testserver"]
# Each test client creates the middleware: without this, it would list two hundred files each time.
WHITENOISE_AUTOREFRESH = True
# Pages name their sources, whether `make bundles` was run or not.
MIDDLEWARE = [name for name in MIDDLEWARE if not name.endswith(".BundlesMiddleware")]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# A file, as on servers: an in-memory SQLite rejects a thread that would have to wait for another.
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["TEST"] = {"NAME": Path(os.environ["TEST_DATA_DIR"]) / "test.sqlite3"}
else:
    # `make test-postgres` has migrated it.
    DATABASES["default"]["TEST"] = {"TEMPLATE": DATABASES["default"]["NAME"]}
