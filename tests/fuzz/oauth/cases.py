"""Makes hostile and nearly valid requests to the authorization server from a seed; none is entitled.

Requests name real clients and their real addresses, a real code and a real refresh token. Code and token
belong to a client whose secret is in no request: no combination may obtain anything.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from tests.fuzz.cases import Case

FORM = "application/x-www-form-urlencoded"
CSRF = "c" * 32
CHALLENGE = "x" * 43
# Addresses to which no redirect may lead and which may not be registered, in deceptive spellings.
HOSTILE_URIS = (
    "https://evil.example/cb",
    "//evil.example",
    "///evil.example/",
    "/\\evil.example",
    "\\\\evil.example",
    "https:evil.example",
    "https:/evil.example/cb",
    "http://evil.example/cb",
    "javascript:alert(1)",
    "JaVaScRiPt://127.0.0.1/%0aalert(1)",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd",
    "http://127.0.0.1:33418@evil.example/callback",
    "http://127.0.0.1:33418/callback@evil.example",
    "http://127.0.0.1:33418\\@evil.example/callback",
    "http://127.0.0.1.evil.example/callback",
    "http://127.0.0.1:33418/callback#@evil.example",
    "http://127.0.0.1:33418/callback/../../admin",
    "http://127.0.0.1:33418/callback?next=//evil.example",
    "http://127.0.0.1:99999/callback",
    "http://127.0.0.1:033418/callback",
    "http://127.1:33418/callback",
    "http://2130706433/callback",
    "http://0/callback",
    "http://[::1%25lo]:1/callback",
    "http://[::1",
    "http://localhost.evil.example/callback",
    "HTTP://LOCALHOST:1/callback",
    "http://ＬＯＣＡＬＨＯＳＴ/callback",  # Full-width letters, which some parsers fold.
    "https://client.example.evil.example/callback",
    "https://client.example:8443/callback",
    "https://client.example/callback/",
    "https://client.example/Callback",
    "https://client.example/callback?a=1",
    "https://client.example\t/callback",
    "https://client.example/\r\nLocation: https://evil.example",
    "https://*.example/callback",
    "cursor://evil.example/oauth/callback",
    "cursor://anysphere.cursor-mcp/oauth/callback/../x",
    "about:blank",
    "",
)
ODD_TEXTS = (
    "", " ", "\x00", "\r\n", "\r\nSet-Cookie: a=b", "%", "%zz", "%00", "\u202e", "\U0001f600", "\ud7ff",
    "é" * 40, "a" * 300, "a" * 5_000, "[]", '{"a":1}', "null", "0", "-1", "1e999", "../../", "'; --",
    "<script>", "{{x}}", "none", "consent", "login", "plain", "S256", "code", "token", "id_token",
    "code token", "query", "fragment", "form_post",
    "mcp", "mcp:admin", "mcp mcp:tools", "openid offline_access", "mcp:*", "*", "admin",
)  # fmt: skip
DOCUMENT_IDS = (
    "https://127.0.0.1/client.json",
    "https://[::1]/client.json",
    "https://169.254.169.254/latest/meta-data",
    "https://10.0.0.1:443/client.json",
    "https://user@127.0.0.1/client.json",
    "https://127.0.0.1/client.json#part",
    "https://127.0.0.1/../client.json",
    "https://127.0.0.1",
    "https://[::1",
    "https://nowhere.invalid/client.json",
)
GRANTS = (
    "authorization_code", "refresh_token", "client_credentials", "password", "implicit",
    "urn:ietf:params:oauth:grant-type:device_code", "urn:ietf:params:oauth:grant-type:jwt-bearer",
    "urn:ietf:params:oauth:grant-type:token-exchange", "",
)  # fmt: skip
NAMES = (
    "client_id", "redirect_uri", "response_type", "scope", "state", "code_challenge", "code_challenge_method",
    "resource", "grant_type", "code", "code_verifier", "refresh_token", "client_secret", "token", "next",
    "token_type_hint", "prompt", "response_mode", "claims", "request", "request_uri", "iss", "nonce",
    "ticket", "client_assertion", "client_assertion_type", "assertion", "subject_token", "username",
    "password", "decision", "access_token", "max_age",
)  # fmt: skip
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
CONTENT_TYPES = (
    FORM, FORM, FORM, f"{FORM}; charset=utf-8", f"{FORM}; charset=utf-7", "multipart/form-data; boundary=x",
    "multipart/form-data", "application/json", "text/plain", "",
)  # fmt: skip
METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE")

Pairs = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Known:
    """An attacker's knowledge of the installation: all but the password and the secret of ``guarded``.

    ``addresses`` maps self-registered clients to their addresses; ``session`` is the cookie of a logged-in
    user, as their own browser sends it. ``machines`` authenticate by a secret or key that is not known;
    ``assertions`` were used, or prove nothing.
    """

    host: str
    addresses: dict[str, list[str]]
    guarded: str
    code: str
    verifier: str
    refresh: str
    access: str
    session: str
    machines: list[str]
    assertions: list[str]


class Attacker:
    """A generator of cases; the same seed and number give the same case."""

    def __init__(self, known: Known, seed: int, number: int) -> None:
        self.known = known
        self.chance = random.Random(f"{seed}:{number}")

    def case(self) -> Case:
        """Return one request."""
        kinds: list[tuple[int, Callable[[], Case]]] = [
            (34, self.authorize),
            (26, self.token),
            (8, self.machine),
            (16, self.register),
            (8, self.revoke),
            (4, self.consent),
            (3, self.pages),
            (1, self.other_method),
        ]
        makers = [maker for _, maker in kinds]
        return self.chance.choices(makers, [weight for weight, _ in kinds])[0]()

    def authorize(self) -> Case:
        """Return an authorization request, nearly valid or far from it."""
        client = self.chance.choice(list(self.known.addresses))
        asked = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": self.chance.choice(self.known.addresses[client]),
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "state": "as sent",
            "scope": "mcp mcp:tools",
            "resource": f"http://{self.known.host}/mcp",
        }
        target = "/oauth/authorize?" + self._query(self._changed(asked))
        return self._sent("authorize", "GET", target, cookie=self.chance.random() < 0.5)

    def token(self) -> Case:
        """Return a token request that lacks something, or belongs to another client."""
        grant = self.chance.choice(GRANTS[:2] if self.chance.random() < 0.8 else GRANTS)
        asked = {"grant_type": grant, "client_id": self._client()}
        if grant == "authorization_code":
            asked |= {
                "code": self.known.code,
                "code_verifier": self.known.verifier,
                "redirect_uri": self.chance.choice(self._addresses()),
            }
        else:
            asked |= {"refresh_token": self.known.refresh, "scope": "mcp mcp:admin"}
        return self._form("token", "/oauth/token", self._changed(asked))

    def machine(self) -> Case:
        """Return a request of a fake machine: with a guessed secret or a foreign signature."""
        asked = {"grant_type": "client_credentials", "resource": f"http://{self.known.host}/mcp"}
        if self.chance.random() < 0.3:
            asked |= {"client_id": self._machine(), "client_secret": self._value()}
        else:
            asked |= {"client_assertion_type": ASSERTION, "client_assertion": self._assertion()}
            if self.chance.random() < 0.5:
                asked["client_id"] = self._machine()
        return self._form("token", "/oauth/token", self._changed(asked))

    def revoke(self) -> Case:
        """Return a revocation of a foreign connection."""
        asked = {"token": self._secret(), "client_id": self._client()}
        return self._form("revoke", "/oauth/revoke", self._changed(asked))

    def register(self) -> Case:
        """Return a registration: valid metadata, hostile addresses, or invalid JSON."""
        if self.chance.random() < 0.1:
            body = self.chance.choice(
                (b"", b"[", b"null", b"[[]]", b'"', b"\xff\xfe", b"[" * 4_000, b" " * 9_000)
            )
        else:
            uris: list[Any] = [self._uri() for _ in range(self.chance.choice((1, 1, 1, 2, 3, 12)))]
            said: dict[str, Any] = {
                "client_name": self.chance.choice(("Client", *ODD_TEXTS)),
                "redirect_uris": uris,
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": self.chance.choice(
                    ("none", "client_secret_basic", "private_key_jwt", "tls_client_auth")
                ),
            }
            for _ in range(self.chance.choice((0, 0, 1, 2))):
                said[self.chance.choice((*said, "jwks_uri", "logo_uri", "scope", "software_statement"))] = (
                    self.chance.choice((None, True, 7, [], {}, [[]], ["code"], *ODD_TEXTS, *HOSTILE_URIS))
                )
            body = json.dumps(said).encode(errors="replace")
        return self._sent("register", "POST", "/oauth/register", body, "application/json")

    def consent(self) -> Case:
        """Return a consent without a question, from the user's own browser or another one."""
        asked = {"ticket": self.chance.choice(("x" * 22, *ODD_TEXTS)), "decision": "allow"}
        return self._form(
            "consent", "/oauth/authorize", self._guarded_form(self._changed(asked)), cookie=True
        )

    def pages(self) -> Case:
        """Return a request of a page for users with a redirect target."""
        path = self.chance.choice(("/accounts/login/", "/accounts/logout/", "/oauth/apps"))
        further = [("next", self._uri())]
        if self.chance.random() < 0.5:
            return self._sent("page", "GET", f"{path}?{self._query(further)}")
        # No password is among them: too many wrong ones would lock the address out, as intended.
        asked = self._guarded_form([*further, ("connection", self._odd()), ("username", "")])
        # Logged out with their own cookie, the user would be absent for the rest of the run.
        return self._form("page", path, asked, cookie=path == "/oauth/apps")

    def other_method(self) -> Case:
        """Return a request with a method that the endpoint does not support."""
        path = self.chance.choice(("authorize", "token", "register", "revoke", "apps", "nothing"))
        return self._sent(
            "method", self.chance.choice(METHODS), f"/oauth/{path}?{self._query([])}", b"a=b", FORM
        )

    # Parts.

    def _changed(self, asked: dict[str, str]) -> Pairs:
        """Return a form that is valid in all but a few fields, or sometimes entirely invented."""
        if self.chance.random() < 0.15:
            return [(self.chance.choice(NAMES), self._value()) for _ in range(self.chance.randint(0, 12))]
        pairs = list(asked.items())
        for _ in range(self.chance.choice((0, 1, 1, 1, 2, 3))):
            at = self.chance.randrange(len(pairs)) if pairs else 0
            change = self.chance.choice(("value", "value", "uri", "missing", "twice", "more"))
            if change == "more" or not pairs:
                pairs.append((self.chance.choice(NAMES), self._value()))
            elif change == "missing":
                pairs.pop(at)
            elif change == "twice":
                pairs.append((pairs[at][0], self._value()))
            elif change == "uri":
                pairs = [(name, self._uri() if name == "redirect_uri" else value) for name, value in pairs]
            else:
                pairs[at] = (pairs[at][0], self._value())
        return pairs

    def _value(self) -> str:
        kinds = (self._odd, self._uri, self._secret, self._client, self._mutated)
        return self.chance.choice(kinds)()

    def _odd(self) -> str:
        return self.chance.choice(ODD_TEXTS)

    def _uri(self) -> str:
        return self.chance.choice(HOSTILE_URIS if self.chance.random() < 0.6 else self._addresses())

    def _addresses(self) -> list[str]:
        return [uri for uris in self.known.addresses.values() for uri in uris]

    def _secret(self) -> str:
        known = self.known
        return self.chance.choice(
            (known.code, known.refresh, known.access, known.verifier, "mcprt_" + "x" * 43)
        )

    def _client(self) -> str:
        return self.chance.choice((*self.known.addresses, self.known.guarded, *DOCUMENT_IDS))

    def _machine(self) -> str:
        return self.chance.choice((*self.known.machines, *self.known.machines, self._client()))

    def _assertion(self) -> str:
        """Return an assertion that was used or proves nothing, sometimes with a part of another."""
        parts = self.chance.choice(self.known.assertions).split(".")
        if self.chance.random() < 0.5:
            at = self.chance.randrange(3)
            parts[at] = self.chance.choice((*self.chance.choice(self.known.assertions).split("."), ""))
        return ".".join(parts) + self.chance.choice(("", "", "", ".", "A", "="))

    def _mutated(self) -> str:
        """Return a real value with one character changed, cut off or added."""
        real = self.chance.choice((self._secret, self._client, self._uri))() or "x"
        at = self.chance.randrange(len(real))
        middle = self.chance.choice(("", "%", "\x00", "A", " ", "\n", real[at] * 2, real[at].swapcase()))
        return real[:at] + middle + real[at + 1 :]

    def _query(self, pairs: Pairs) -> str:
        encoded = urlencode(pairs, errors="replace")
        odd = self.chance.random()
        if odd < 0.05:
            at = self.chance.randrange(len(encoded) + 1)
            encoded = (
                encoded[:at] + self.chance.choice(("%", "%f", "&", "&&", "=", ";", "%ff", "+")) + encoded[at:]
            )
        return encoded

    def _guarded_form(self, pairs: Pairs) -> Pairs:
        """Return a form of this server, mostly with the token against cross-site requests."""
        return [("csrfmiddlewaretoken", CSRF), *pairs] if self.chance.random() < 0.9 else pairs

    def _form(self, kind: str, path: str, pairs: Pairs, *, cookie: bool = False) -> Case:
        body = self._query(pairs).encode()
        content_type = FORM if self.chance.random() < 0.9 else self.chance.choice(CONTENT_TYPES)
        if self.chance.random() < 0.01:
            body += b"&a=" + b"x" * self.chance.choice((17_000, 70_000))
        return self._sent(kind, "POST", path, body, content_type, cookie=cookie)

    def _sent(
        self,
        kind: str,
        method: str,
        target: str,
        body: bytes = b"",
        content_type: str = "",
        *,
        cookie: bool = False,
    ) -> Case:
        cookies = f"csrftoken={CSRF}" + (f"; sessionid={self.known.session}" if cookie else "")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.known.host}", f"Cookie: {cookies}"]
        if method != "GET":
            lines.append(f"Content-Length: {len(body)}")
        if content_type:
            lines.append(f"Content-Type: {content_type}")
        if kind in ("token", "revoke") and self.chance.random() < 0.2:
            lines.append(f"Authorization: {self._authorization()}")
        head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
        return Case(kind, method, head + (b"" if method == "GET" else body))

    def _authorization(self) -> str:
        pair = f"{quote(self._client())}:{quote(self._value())}".encode()
        basic = base64.b64encode(pair).decode()
        return self.chance.choice(
            (f"Basic {basic}", f"basic {basic[:-3]}", "Basic", "Basic :", "Basic %%%%", "Bearer x")
        )
