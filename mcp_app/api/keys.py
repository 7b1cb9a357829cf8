"""API keys, which are issued and revoked but never changed, and the audit trail."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app.api.base import ApiViewSet, Given
from mcp_app.api.filtering import AuditFilter, KeyFilter
from mcp_app.api.formats import DateTimeField, RowSerializer
from mcp_app.api.openapi import described
from mcp_app.api.permissions import seeing, to
from mcp_app.auth.services import MAX_NAME, NEVER_ENDS, USUAL_DAYS, ends_in, issue_api_key, revoke_api_key
from mcp_app.models import ApiKey, AuditEvent
from mcp_app.protocol.scopes import ALL


class KeyShown(RowSerializer[ApiKey]):
    """A key without its secret."""

    user: Any = serializers.StringRelatedField()
    usable = serializers.BooleanField(help_text="Neither revoked nor expired.")
    scopes = serializers.SerializerMethodField(help_text="What it may be used for, of what its user may.")

    class Meta:
        model = ApiKey
        fields: Any = (
            "id", "name", "user", "prefix", "usable", "scopes", "created_at", "expires_at", "revoked_at",
            "last_used_at",
        )  # fmt: skip

    def get_scopes(self, key: ApiKey) -> list[str]:
        """As a list."""
        return key.scopes.split()


class KeyIssued(KeyShown):
    """A key just issued."""

    secret = serializers.CharField(help_text="Kept nowhere: it cannot be shown again.")
    warning = serializers.CharField(help_text="What to mind; empty if there is nothing.")

    class Meta(KeyShown.Meta):
        fields = (*KeyShown.Meta.fields, "secret", "warning")


class KeyGiven(Given):
    """What a new key is."""

    name = serializers.CharField(max_length=MAX_NAME)
    expires_at = DateTimeField(allow_null=True, default=None)
    expires_in_days = serializers.ChoiceField(
        choices=USUAL_DAYS,
        required=False,
        help_text="Instead of `expires_at`. With neither of them it never expires.",
    )
    scopes = serializers.MultipleChoiceField(
        choices=ALL,
        default=lambda: set(ALL),
        allow_empty=False,
        help_text="All, if left out. The API needs `mcp:admin`.",
    )
    user = serializers.CharField(
        required=False, help_text="Whose rights it carries; oneself if left out. Superusers name anybody."
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
    }

    def list(self, request: Request) -> Response:
        """The newest first, revoked ones among them."""
        return self.page(self.get_queryset())

    def retrieve(self, request: Request, pk: int) -> Response:
        """One key."""
        return Response(self.get_serializer(self.get_object()).data)

    @described(request=KeyGiven, responses={201: KeyIssued})
    def create(self, request: Request) -> Response:
        """Issue a key; the answer is the only one that has its secret."""
        given = KeyGiven(data=request.data)
        given.is_valid(raise_exception=True)
        asked = given.validated_data
        user = _owner(request.user, asked.pop("user", None))
        days = asked.pop("expires_in_days", None)
        if days is not None:
            if asked["expires_at"] is not None:
                raise serializers.ValidationError({"expires_in_days": ["Not beside expires_at."]})
            asked["expires_at"] = ends_in(days)
        key, secret = issue_api_key(user=user, actor=request.user, **asked)
        told = {"secret": secret, "warning": "" if key.expires_at else NEVER_ENDS}
        return Response({**self.get_serializer(key).data, **told}, status=201)

    @described(request=None)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: int) -> Response:
        """Revoke it in every process, for ever."""
        key = self.get_object()
        revoke_api_key(key=key, actor=request.user)
        return Response(self.get_serializer(key).data)


def _owner(asking: Any, name: str | None) -> Any:
    if name is None or name == asking.get_username():
        return asking
    if not asking.is_superuser:
        # Deny before the look-up, so that the answer does not reveal which users exist.
        raise PermissionDenied("Only superusers issue keys for others.")
    users = get_user_model()
    owner = users._default_manager.filter(**{users.USERNAME_FIELD: name}).first()
    if owner is None:
        raise serializers.ValidationError({"user": ["There is no such user."]})
    return owner


class EventShown(RowSerializer[AuditEvent]):
    """Who did what, when."""

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
        """The newest first."""
        return self.page(self.get_queryset())

    def retrieve(self, request: Request, pk: int) -> Response:
        """One event."""
        return Response(self.get_serializer(self.get_object()).data)
