"""Views of errors, which can be muted, resolved and assigned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_user_model
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app.api.base import ApiViewSet, InputSerializer
from mcp_app.api.filtering import ErrorFilter
from mcp_app.api.formats import DateTimeField, RowSerializer
from mcp_app.api.log.messages import ExceptionShown
from mcp_app.api.openapi import described
from mcp_app.api.permissions import seeing, to
from mcp_app.api.problems import StateConflict
from mcp_app.auth.permissions import may_view_people
from mcp_app.message_log import triage
from mcp_app.message_log.triage import Triaged, TriageError
from mcp_app.models import ErrorGroup

MOST_TIMES = 1_000_000


class TriageShown(RowSerializer[ErrorGroup]):
    """The triage of an error, without its texts."""

    id = serializers.CharField(source="digest")
    state = serializers.SerializerMethodField(
        help_text="`open`, `muted`, `resolved`, `regressed` (again after it was resolved) or `worse` (a mute "
        "has ended)."
    )
    assignee: Any = serializers.StringRelatedField()

    class Meta:
        model = ErrorGroup
        fields: Any = ("id", "state", "muted_until", "muted_count", "assignee")

    def get_state(self, error: ErrorGroup) -> str:
        return triage.state_of(error)


class ErrorListed(TriageShown):
    """Similar errors, grouped."""

    text = serializers.CharField(
        source="words", help_text="The class of an exception, or the text without its variable parts."
    )

    class Meta(TriageShown.Meta):
        fields = (
            *TriageShown.Meta.fields, "method", "tool", "outcome", "is_fault", "text", "place", "count",
            "first_at", "last_at",
        )  # fmt: skip


class ErrorShown(ErrorListed):
    """Similar errors, with the text and the exception of the newest one."""

    exception = ExceptionShown(source="raised", read_only=True, allow_null=True)

    class Meta(ErrorListed.Meta):
        fields = (*ErrorListed.Meta.fields, "example", "exception")


class MuteGiven(InputSerializer):
    """The end of a mute. Without either, the error stays muted."""

    until = DateTimeField(allow_null=True, default=None, help_text="Errors after this time end the mute.")
    times = serializers.IntegerField(
        min_value=1, max_value=MOST_TIMES, allow_null=True, default=None,
        help_text="The mute ends after this number of further errors.",
    )  # fmt: skip


class AssignGiven(InputSerializer):
    """The user to whom an error is assigned, or null to unassign it."""

    user = serializers.CharField(allow_null=True)


class ErrorViews(ApiViewSet):
    """Errors of the message log."""

    queryset = ErrorGroup.objects.select_related("assignee")
    serializer_class = ErrorListed
    filters = ErrorFilter
    order = "-last_at"
    lookup_value_converter = "slug"
    needs = {
        "list": seeing("message"),
        "retrieve": seeing("message"),
        **dict.fromkeys(("resolve", "reopen", "mute", "assign"), to("triage_errors")),
    }

    def list(self, request: Request) -> Response:
        """List all errors.

        Returns the errors, the most recent first.
        """
        return self.page(self.get_queryset())

    @described(responses=ErrorShown)
    def retrieve(self, request: Request, pk: str) -> Response:
        """Retrieve an error."""
        return Response(ErrorShown(self.get_object()).data)

    @described(request=None, responses=TriageShown)
    @action(detail=True, methods=["post"])
    def resolve(self, request: Request, pk: str) -> Response:
        """Resolve an error.

        If it happens again, its state is `regressed`.
        """
        return self._triaged(lambda digest: triage.resolve(digest=digest, actor=request.user))

    @described(request=None, responses=TriageShown)
    @action(detail=True, methods=["post"])
    def reopen(self, request: Request, pk: str) -> Response:
        """Reopen an error."""
        return self._triaged(lambda digest: triage.reopen(digest=digest, actor=request.user))

    @described(request=MuteGiven, responses=TriageShown)
    @action(detail=True, methods=["post"])
    def mute(self, request: Request, pk: str) -> Response:
        """Mute an error until it gets worse."""
        given = MuteGiven(data=request.data)
        given.is_valid(raise_exception=True)
        asked = given.validated_data
        return self._triaged(lambda digest: triage.mute(digest=digest, actor=request.user, **asked))

    @described(request=AssignGiven, responses=TriageShown)
    @action(detail=True, methods=["post"])
    def assign(self, request: Request, pk: str) -> Response:
        """Assign an error to a staff user."""
        given = AssignGiven(data=request.data)
        given.is_valid(raise_exception=True)
        assignee = _user(request.user, given.validated_data["user"])
        return self._triaged(
            lambda digest: triage.assign(digest=digest, actor=request.user, assignee=assignee)
        )

    def _triaged(self, change: Callable[[str], Triaged]) -> Response:
        try:
            changed = change(self.get_object().pk)
        except TriageError as error:
            raise StateConflict(str(error)) from None
        return Response(TriageShown(changed.error).data)


def _user(asking: Any, name: str | None) -> Any:
    if name is None or name == asking.get_username():
        return None if name is None else asking
    users = get_user_model()
    found = None
    if may_view_people(asking):
        found = users._default_manager.filter(**{users.USERNAME_FIELD: name}).first()
    if found is None:
        raise serializers.ValidationError({"user": ["The user does not exist, or you may not view users."]})
    return found
