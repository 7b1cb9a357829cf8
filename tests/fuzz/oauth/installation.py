"""The attacked installation: a logged-in user, their clients, and an attacker's knowledge."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

import jwt
import orjson
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.fuzz.oauth.cases import ASSERTION, Known
from tests.servers.live import LiveServer

ADDRESSES = {
    "local": ["http://127.0.0.1:33418/callback", "http://localhost:8787/oauth/callback", "http://[::1]:5/"],
    "web": ["https://client.example/callback", "https://client.example/callback?kept=1"],
    "program": ["cursor://anysphere.cursor-mcp/oauth/callback"],
}
# A logged-in user; self-registered clients; one client with a secret, and its tokens.
PREPARED = """
import json
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.db import transaction
from mcp_app.auth.own_addresses import resource
from mcp_app.oauth import connections, registration, secrets
from mcp_app.oauth.machines.registration import Machine, create_machine

person = get_user_model().objects.create_user("ada", password="a long enough password")
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY], session[HASH_SESSION_KEY] = str(person.pk), person.get_session_auth_hash()
session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]
session.save()

def said(uris, method):
    return registration.metadata_of(
        {"client_name": "Client", "redirect_uris": uris, "token_endpoint_auth_method": method}
    )

clients = {}
for uris in ADDRESSES.values():
    client = registration.new_client(said(uris, "none"), "dcr")
    client.save()
    clients[client.client_id] = uris
guarded, secret = registration.create_client(said(ADDRESSES["web"], "client_secret_post"), actor=None)

signing, _ = create_machine(Machine("Signs", "private_key_jwt", ["mcp"], jwks=PUBLIC), actor=None)
knowing, _ = create_machine(Machine("Knows", "client_secret_basic", ["mcp"]), actor=None)

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
    "machines": [signing.client_id, knowing.client_id],
}}))
"""
COUNTED = """
from mcp_app.oauth.models import *
print([rows.objects.count() for rows in (AccessToken, RefreshToken, AuthorizationCode, Connection)],
      Connection.objects.filter(revoked_at=None).count())
"""


class Installation:
    """An installation prepared once; ``faults`` reports anything given out or revoked."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        told = json.loads(self._shell(f"PUBLIC = {public.decode()!r}\n{PREPARED}"))
        host = f"127.0.0.1:{server.port}"
        assertions = self._assertions(f"http://{host}", told["known"]["machines"][0], public)
        self.known = Known(host=host, assertions=assertions, **told["known"])
        self._secret = told["secret"]
        self._counted = self._shell(COUNTED)

    def _assertions(self, issuer: str, machine: str, public: bytes) -> list[str]:
        """Return a used assertion, and others that are valid but for one claim."""
        now = int(time.time())
        right = {"iss": machine, "sub": machine, "aud": issuer, "jti": "used", "exp": now + 3_000, "iat": now}

        def signed(key: Any = self._key, algorithm: str = "ES256", **other: Any) -> str:
            return jwt.encode({**right, "jti": str(other or "used"), **other}, key, algorithm)

        used = signed()
        asked = {
            "grant_type": "client_credentials",
            "client_assertion_type": ASSERTION,
            "client_assertion": used,
            "resource": f"{issuer}/mcp",
        }
        with urllib.request.urlopen(f"{issuer}/oauth/token", urlencode(asked).encode()) as answer:
            assert json.load(answer)["access_token"]
        by_public_key = b".".join(
            base64.urlsafe_b64encode(orjson.dumps(part)).rstrip(b"=")
            for part in ({"alg": "HS256", "typ": "JWT"}, {**right, "jti": "by its public key"})
        )
        hmac = jwt.get_algorithm_by_name("HS256").sign(by_public_key, public)
        return [
            used,
            signed(ec.generate_private_key(ec.SECP256R1())),
            f"{by_public_key.decode()}.{base64.urlsafe_b64encode(hmac).rstrip(b'=').decode()}",
            jwt.encode({**right, "jti": "unsigned"}, "", "none"),
            signed(aud="https://other.example"),
            signed(aud=[issuer, "https://other.example"]),
            signed(exp=now - 4_000),
            signed(exp=now + 400_000),
            signed(nbf=now + 3_000),
            signed(iss="somebody"),
            signed(sub="somebody"),
            signed(jti=7),
            signed(jti=""),
        ]

    def _shell(self, code: str) -> str:
        return self.server.shell(f"ADDRESSES = {ADDRESSES!r}\n{code}").strip().splitlines()[-1]

    def faults(self) -> list[str]:
        """Return changes made by the requests; empty if there are none."""
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
