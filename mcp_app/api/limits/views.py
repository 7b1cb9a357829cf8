"""Views of limits: settings, what is used of them, and a reset."""

from __future__ import annotations

from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcp_app.api.base import ApiView, ApiViewSet
from mcp_app.api.filtering import LimitFilter
from mcp_app.api.limits.bodies import LimitInput, LimitShown, NewLimitInput, ResetInput, Usage, usage_of
from mcp_app.api.openapi import described
from mcp_app.api.permissions import PUBLIC, seeing, to
from mcp_app.catalogue.snapshots.limit_rules import all_rules
from mcp_app.limits import current, report, services
from mcp_app.limits.matching import Caller
from mcp_app.models import LimitRule


class LimitViews(ApiViewSet):
    """Limits on calls of tools."""

    queryset = LimitRule.objects.select_related("user", "group")
    serializer_class = LimitShown
    filters = LimitFilter
    lookup_field = "name"
    lookup_value_converter = "slug"
    needs = {
        "list": seeing("limitrule"),
        "retrieve": seeing("limitrule"),
        "create": to("add_limitrule"),
        "partial_update": to("change_limitrule"),
        "destroy": to("delete_limitrule"),
        "usage": seeing("limitrule"),
        "reset": to("reset_limit"),
    }

    def list(self, request: Request) -> Response:
        """List all limits."""
        return self.page(self.get_queryset())

    def retrieve(self, request: Request, name: str) -> Response:
        """Retrieve a limit."""
        return Response(self.get_serializer(self.get_object()).data)

    @described(request=NewLimitInput, responses={201: LimitShown})
    def create(self, request: Request) -> Response:
        """Add a limit.

        Every process applies it within seconds. It needs a rate, a number of concurrent calls or a budget.
        """
        given = NewLimitInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = services.save_rule(actor=request.user, **given.validated_data)
        return Response(self.get_serializer(row).data, status=201)

    @described(request=LimitInput, responses=LimitShown)
    def partial_update(self, request: Request, name: str) -> Response:
        """Change a limit."""
        given = LimitInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = services.save_rule(actor=request.user, rule=self.get_object(), **given.validated_data)
        return Response(self.get_serializer(row).data)

    def destroy(self, request: Request, name: str) -> Response:
        """Delete a limit."""
        services.delete_rule(rule=self.get_object(), actor=request.user)
        return Response(status=204)

    @described(responses=Usage(many=True))
    @action(detail=True, methods=["get"])
    def usage(self, request: Request, name: str) -> Response:
        """Retrieve the use of a limit.

        For a limit that counts callers separately, returns at most 50 callers: those that it refused, or that
        used its budget, in the last day (31 days for a budget).
        """
        return Response([usage_of(each) for each in report.of_rule(current.rule_of(self.get_object()))])

    @described(request=ResetInput, responses={204: None})
    @action(detail=True, methods=["post"])
    def reset(self, request: Request, name: str) -> Response:
        """Reset the use of a limit."""
        given = ResetInput(data=request.data)
        given.is_valid(raise_exception=True)
        subject = given.validated_data.get("subject", "")
        services.reset_rule(rule=self.get_object(), actor=request.user, subject=subject)
        return Response(status=204)


class OwnUsage(ApiView):
    """The use of limits by the user of a request."""

    needs = {"get": PUBLIC}

    @described(responses=Usage(many=True))
    def get(self, request: Request) -> Response:
        """List your use of limits.

        Limits of the API key or OAuth client of the request are included, those of others are not.
        """
        caller = Caller.of(request.auth.key)._replace(person=f"user:{request.user.pk}")
        return Response([usage_of(each) for each in report.of_caller(all_rules(), caller)])
