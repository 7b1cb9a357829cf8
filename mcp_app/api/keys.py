"""Views of API keys, of credentials for other servers, and of the audit trail.

No response except that to a new API key contains a secret.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app.api.base import ApiViewSet, InputSerializer
from mcp_app.api.filtering import AuditFilter, CredentialFilter, KeyFilter
from mcp_app.api.formats import DateTimeField, RowSerializer
from mcp_app.api.openapi import described
from mcp_app.api.permissions import seeing, to
from mcp_app.auth.api_keys import (
    MAX_NAME,
    NEVER_ENDS,
    OLD_KEY_ENDS,
    USUAL_DAYS,
    ends_in,
    issue_api_key,
    replace_api_key,
    revoke_api_key,
)
from mcp_app.credentials.services import (
    FIELDS,
    delete_credential,
    names_of_servers,
    names_of_tools,
    save_credential,
)
from mcp_app.models import ApiKey, AuditEvent, Credential
from mcp_app.protocol.scopes import ALL, BASIC


class KeyShown(RowSerializer[ApiKey]):
    """An API key without its secret."""

    user: Any = serializers.StringRelatedField()
    usable = serializers.BooleanField(help_text="True if the key is neither revoked nor expired.")
    scopes = serializers.SerializerMethodField(
        help_text="The scopes of the key, within the permissions of its user."
    )

    class Meta:
        model = ApiKey
        fields: Any = (
            "id", "name", "user", "prefix", "usable", "scopes", "created_at", "expires_at", "revoked_at",
            "last_used_at",
        )  # fmt: skip

    def get_scopes(self, key: ApiKey) -> list[str]:
        return key.scopes.split()


class KeyIssued(KeyShown):
    """A new API key with its secret."""

    secret = serializers.CharField(help_text="The key. It is not stored and cannot be retrieved again.")
    warning = serializers.CharField(help_text="A warning about the key, or an empty string.")

    class Meta(KeyShown.Meta):
        fields = (*KeyShown.Meta.fields, "secret", "warning")


class KeyInput(InputSerializer):
    """The name, expiry, scopes and user of a new API key."""

    name = serializers.CharField(max_length=MAX_NAME)
    expires_at = DateTimeField(allow_null=True, default=None)
    expires_in_days = serializers.ChoiceField(
        choices=USUAL_DAYS,
        required=False,
        help_text="The lifetime in days, in place of `expires_at`. Without either, the key never expires.",
    )
    scopes = serializers.MultipleChoiceField(
        choices=ALL,
        default=lambda: set(BASIC),
        allow_empty=False,
        help_text="The scopes of the key, by default all except `mcp:admin`, which this API requires.",
    )
    user = serializers.CharField(
        required=False,
        help_text="The user whose permissions the key has, by default you. Only superusers can name others.",
    )


class KeyReplacement(InputSerializer):
    """The end of an API key that is replaced."""

    old_key_ends = serializers.ChoiceField(
        choices=tuple(OLD_KEY_ENDS),
        default="now",
        help_text="When the old key expires: now, or after one or 24 hours. An earlier expiry still applies.",
    )


class KeyViews(ApiViewSet):
    """API keys."""

    queryset = ApiKey.objects.select_related("user")
    serializer_class = KeyShown
    filters = KeyFilter
    lookup_value_converter = "int"
    needs = {
        "list": seeing("apikey"),
        "retrieve": seeing("apikey"),
        "create": to("add_apikey"),
        "revoke": to("change_apikey"),
        "replace": to("add_apikey", "change_apikey"),
    }

    def list(self, request: Request) -> Response:
        """List all API keys.

        Includes revoked keys, newest first.
        """
        return self.page(self.get_queryset())

    def retrieve(self, request: Request, pk: int) -> Response:
        """Retrieve an API key."""
        return Response(self.get_serializer(self.get_object()).data)

    @described(request=KeyInput, responses={201: KeyIssued})
    def create(self, request: Request) -> Response:
        """Create an API key.

        This response is the only one that contains the secret.
        """
        given = KeyInput(data=request.data)
        given.is_valid(raise_exception=True)
        asked = given.validated_data
        user = _owner(request.user, asked.pop("user", None))
        days = asked.pop("expires_in_days", None)
        if days is not None:
            if asked["expires_at"] is not None:
                raise serializers.ValidationError({"expires_in_days": ["Cannot be used with expires_at."]})
            asked["expires_at"] = ends_in(days)
        key, secret = issue_api_key(user=user, actor=request.user, **asked)
        once = {"secret": secret, "warning": "" if key.expires_at else NEVER_ENDS}
        return Response({**self.get_serializer(key).data, **once}, status=201)

    @described(request=None)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: int) -> Response:
        """Revoke an API key.

        Takes effect in all processes and cannot be undone.
        """
        key = self.get_object()
        revoke_api_key(key=key, actor=request.user)
        return Response(self.get_serializer(key).data)

    @described(request=KeyReplacement, responses={201: KeyIssued})
    @action(detail=True, methods=["post"])
    def replace(self, request: Request, pk: int) -> Response:
        """Replace an API key.

        Creates a key with the same user, name, scopes and days of validity, and ends the old key. This
        response is the only one that contains the new secret.
        """
        given = KeyReplacement(data=request.data)
        given.is_valid(raise_exception=True)
        key = self.get_object()
        new, secret, _ = replace_api_key(key=key, actor=request.user, **given.validated_data)
        once = {"secret": secret, "warning": "" if new.expires_at else NEVER_ENDS}
        return Response({**self.get_serializer(new).data, **once}, status=201)


def _owner(asking: Any, name: str | None) -> Any:
    if name is None or name == asking.get_username():
        return asking
    if not asking.is_superuser:
        # Denied before the look-up, so that the response does not reveal which users exist.
        raise PermissionDenied("Only superusers can add API keys for other users.")
    users = get_user_model()
    owner = users._default_manager.filter(**{users.USERNAME_FIELD: name}).first()
    if owner is None:
        raise serializers.ValidationError({"user": ["The user does not exist."]})
    return owner


class CredentialShown(RowSerializer[Credential]):
    """A credential without its secret."""

    secret = serializers.SerializerMethodField(help_text="Always null: a secret can be written only.")
    used_by = serializers.SerializerMethodField(help_text="The names of the tools that use it.")
    used_by_servers = serializers.SerializerMethodField(
        help_text="The names of the upstream servers that use it."
    )

    class Meta:
        model = Credential
        fields: Any = (
            "name", "kind", "secret", *FIELDS, "used_by", "used_by_servers", "last_used_at", "last_error",
            "last_error_at", "rotated_at", "created_at", "updated_at",
        )  # fmt: skip

    @extend_schema_field({"type": "null"})
    def get_secret(self, row: Credential) -> None:
        return None

    def get_used_by(self, row: Credential) -> list[str]:
        return names_of_tools(row.name)

    def get_used_by_servers(self, row: Credential) -> list[str]:
        return names_of_servers(row.name)


class CredentialInput(InputSerializer):
    """The values of a credential. Missing values are not changed."""

    secret = serializers.DictField(
        required=False,
        write_only=True,
        help_text="The secret: `token`; `username` and `password`; `value`; `headers`; or `client_id` and "
        "`client_secret`. Required again if `origins` or `token_url` change.",
    )
    origins = serializers.ListField(child=serializers.CharField(max_length=300), required=False)
    token_url = serializers.CharField(max_length=500, required=False, allow_blank=True)
    scopes = serializers.CharField(max_length=500, required=False, allow_blank=True)
    resource = serializers.CharField(max_length=500, required=False, allow_blank=True)
    audience = serializers.CharField(max_length=500, required=False, allow_blank=True)
    placement = serializers.DictField(
        required=False, help_text="Of an API key: `in` (header, query or cookie), `name` and `prefix`."
    )
    expires_at = DateTimeField(required=False, allow_null=True)


class NewCredentialInput(CredentialInput):
    """A new credential."""

    name = serializers.CharField(max_length=64)
    kind = serializers.ChoiceField(choices=Credential.Kind.choices)


class CredentialViews(ApiViewSet):
    """Credentials for other servers."""

    queryset = Credential.objects.all()
    serializer_class = CredentialShown
    filters = CredentialFilter
    lookup_field = "name"
    lookup_value_converter = "slug"
    needs = {
        "list": seeing("credential"),
        "retrieve": seeing("credential"),
        "create": to("add_credential"),
        "partial_update": to("change_credential"),
        "destroy": to("delete_credential"),
    }

    def list(self, request: Request) -> Response:
        """List all credentials."""
        return self.page(self.get_queryset())

    def retrieve(self, request: Request, name: str) -> Response:
        """Retrieve a credential."""
        return Response(self.get_serializer(self.get_object()).data)

    @described(request=NewCredentialInput, responses={201: CredentialShown})
    def create(self, request: Request) -> Response:
        """Create a credential."""
        given = NewCredentialInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = save_credential(actor=request.user, **given.validated_data)
        return Response(self.get_serializer(row).data, status=201)

    @described(request=CredentialInput, responses=CredentialShown)
    def partial_update(self, request: Request, name: str) -> Response:
        """Change a credential.

        Without `secret` the stored secret stays.
        """
        given = CredentialInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = save_credential(actor=request.user, credential=self.get_object(), **given.validated_data)
        return Response(self.get_serializer(row).data)

    def destroy(self, request: Request, name: str) -> Response:
        """Delete a credential.

        Refused while tools or upstream servers use it.
        """
        try:
            delete_credential(credential=self.get_object(), actor=request.user)
        except ValidationError as error:
            raise serializers.ValidationError({"name": error.messages}) from None
        return Response(status=204)


class EventShown(RowSerializer[AuditEvent]):
    """An event in the audit trail."""

    actor = serializers.CharField(source="actor_name")

    class Meta:
        model = AuditEvent
        fields = ("id", "at", "actor", "action", "object_kind", "object_key", "detail")


class AuditViews(ApiViewSet):
    """The audit trail."""

    queryset = AuditEvent.objects.all()
    serializer_class = EventShown
    filters = AuditFilter
    lookup_value_converter = "int"
    needs = {"list": seeing("auditevent"), "retrieve": seeing("auditevent")}

    def list(self, request: Request) -> Response:
        """List all audit events.

        Returns the events newest first.
        """
        return self.page(self.get_queryset())

    def retrieve(self, request: Request, pk: int) -> Response:
        """Retrieve an audit event."""
        return Response(self.get_serializer(self.get_object()).data)
