"""The only module that creates machines: client, service user, and secret or keys in one transaction."""

from __future__ import annotations

import re
import secrets as system_secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.models import ServiceUser
from mcp_app.models.audit import stored_user
from mcp_app.oauth import secrets
from mcp_app.oauth.connections import MACHINE_ENTERED, MACHINE_PERMISSION, audit_client
from mcp_app.oauth.machines import public_keys
from mcp_app.oauth.machines.assertions import METHOD
from mcp_app.oauth.models import Client
from mcp_app.oauth.registration import plain_name
from mcp_app.protocol import scopes

WITH_SECRET: Final = ("client_secret_basic", "client_secret_post")
METHODS: Final = (*WITH_SECRET, METHOD)
PERMISSION: Final = MACHINE_PERMISSION
_NOT_IN_NAMES: Final = re.compile(r"[^\w.@+-]+")


@dataclass(frozen=True, slots=True)
class Machine:
    """An administrator's input for a new machine.

    A machine that signs assertions has ``jwks`` or ``jwks_uri``.
    """

    name: str
    auth_method: str
    scopes: Collection[str]
    jwks: str = ""
    jwks_uri: str = ""


def create_machine(machine: Machine, *, actor: Any) -> tuple[Client, str]:
    """Create a machine. Return it and its secret, which is stored only as a hash.

    The secret is "" for a machine that signs assertions. Raises ValidationError with messages per field.
    """
    jwks = _checked(machine)
    secret = secrets.new(secrets.SECRET) if machine.auth_method in WITH_SECRET else ""
    name = plain_name(machine.name)
    with transaction.atomic():
        user = _service_user(name)
        client = Client.objects.create(
            name=name,
            client_type=Client.CLIENT_CONFIDENTIAL,
            authorization_grant_type=Client.GRANT_CLIENT_CREDENTIALS,
            client_secret=secrets.digest(secret) if secret else "",
            # The secret is already hashed. A fast hash is enough for 256 random bits.
            hash_client_secret=False,
            token_auth_method=machine.auth_method,
            registration_source=Client.RegistrationSource.MANUAL,
            service_user=user,
            entered_by=stored_user(actor),
            scope=scopes.in_order(machine.scopes),
            jwks=jwks,
            jwks_uri=machine.jwks_uri,
        )
        audit_client(actor, MACHINE_ENTERED, client, user=str(user), scope=client.scope)
    return client, secret


def _checked(machine: Machine) -> str:
    """Check the input. Return the JWK set to store, or "" if there is none. Raises ValidationError."""
    wrong: dict[str, list[str]] = {}
    jwks = ""
    if not plain_name(machine.name):
        wrong["name"] = ["Enter a name. The service user is named after it."]
    if machine.auth_method not in METHODS:
        wrong["token_auth_method"] = ["A service user needs a client secret or a key."]
    if not machine.scopes or not set(machine.scopes) <= set(scopes.ALL):
        wrong["scopes"] = [f"Choose at least one of {', '.join(scopes.ALL)}."]
    signs = machine.auth_method == METHOD
    if signs == (not machine.jwks and not machine.jwks_uri) or (machine.jwks and machine.jwks_uri):
        one = "Enter either public keys or their URL."
        wrong["jwks"] = [one if signs else "Keys need the authentication “signed with a private key”."]
    try:
        jwks = public_keys.registered(machine.jwks) if machine.jwks and signs else ""
    except public_keys.KeysRefused as refused:
        wrong.setdefault("jwks", [str(refused)])
    try:
        if machine.jwks_uri:
            public_keys.check_address(machine.jwks_uri)
    except public_keys.KeysRefused as refused:
        wrong.setdefault("jwks_uri", [str(refused)])
    if wrong:
        raise ValidationError(wrong)
    return jwks


def _service_user(name: str) -> Any:
    """Create a user who has neither password nor permissions and cannot log in."""
    users = get_user_model()
    field = users._meta.get_field(users.USERNAME_FIELD)
    longest = getattr(field, "max_length", None) or 150
    base = f"machine-{_NOT_IN_NAMES.sub('-', name).strip('-').lower()}"[: longest - 9].rstrip("-")
    taken = users._default_manager.filter(**{f"{users.USERNAME_FIELD}__iexact": base}).exists()
    user = users(**{users.USERNAME_FIELD: f"{base}-{system_secrets.token_hex(4)}" if taken else base})
    user.set_unusable_password()
    user.save()
    ServiceUser.objects.create(user=user)
    return user
