"""The attacked installation: a person who is logged in, their clients, and what an attacker knows of it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from urllib.parse import urlencode

from tests.fuzz.oauth.cases import Known
from tests.live import LiveServer

ADDRESSES = {
    "local": ["http://127.0.0.1:33418/callback", "http://localhost:8787/oauth/callback", "http://[::1]:5/"],
    "web": ["https://client.example/callback", "https://client.example/callback?kept=1"],
    "program": ["cursor://anysphere.cursor-mcp/oauth/callback"],
}
# A person who is logged in; clients that registered themselves; one with a secret, and what it was given.
PREPARED = """
import json
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.db import transaction
from mcp_app.auth.site import resource
from mcp_app.oauth import connections, registration, secrets

person = get_user_model().objects.create_user("ada", password="a long enough password")
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY], session[HASH_SESSION_KEY] = str(person.pk), person.get_session_auth_hash()
session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]
session.save()

def said(uris, method):
    return registration.kept(
        {"client_name": "Client", "redirect_uris": uris, "token_endpoint_auth_method": method}
    )

clients = {}
for uris in ADDRESSES.values():
    client = registration.new_client(said(uris, "none"), "dcr")
    client.save()
    clients[client.client_id] = uris
guarded, secret = registration.enter(said(ADDRESSES["web"], "client_secret_post"), actor=None)

def allowed():
    code = secrets.new(secrets.CODE)
    address = ADDRESSES["web"][0]
    consent = connections.Consent(guarded, person, resource(), "mcp mcp:tools", address, "x" * 43)
    connections.allow(consent, code)
    return code

pair = secrets.Pair(secrets.new(secrets.ACCESS), secrets.new(secrets.REFRESH), "mcp mcp:tools", 4102444800.0)
with transaction.atomic():
    connections.exchange(connections.find_code(allowed(), guarded), pair)
print(json.dumps({"secret": secret, "known": {
    "addresses": clients, "guarded": guarded.client_id, "session": session.session_key,
    "code": allowed(), "verifier": "v" * 43, "refresh": pair.refresh, "access": pair.access,
}}))
"""
COUNTED = """
from mcp_app.oauth.models import *
print([rows.objects.count() for rows in (AccessToken, RefreshToken, AuthorizationCode, Connection)],
      Connection.objects.filter(revoked_at=None).count())
"""


class Installation:
    """Prepared once; ``faults`` tells afterwards whether anything was given or taken away."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        told = json.loads(self._shell(PREPARED))
        self.known = Known(host=f"127.0.0.1:{server.port}", **told["known"])
        self._secret = told["secret"]
        self._counted = self._shell(COUNTED)

    def _shell(self, code: str) -> str:
        return self.server.shell(f"ADDRESSES = {ADDRESSES!r}\n{code}").strip().splitlines()[-1]

    def faults(self) -> list[str]:
        """What the requests have changed, empty when all is as it was."""
        counted = self._shell(COUNTED)
        found = [] if counted == self._counted else [f"codes and tokens were {self._counted}, now {counted}"]
        right = {
            "grant_type": "refresh_token",
            "refresh_token": self.known.refresh,
            "client_id": self.known.guarded,
            "client_secret": self._secret,
        }
        try:
            with urllib.request.urlopen(
                f"http://{self.known.host}/oauth/token", urlencode(right).encode()
            ) as answer:
                json.load(answer)["access_token"]
        except urllib.error.HTTPError as error:
            found.append(f"the right client is refused: {error.read()!r}")
        return found
