"""Views of OpenAPI documents: import, choice of operations, and updates."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from mcp_app.api.base import ApiViewSet
from mcp_app.api.documents.fields import (
    DocumentListed,
    DocumentShown,
    ImportInput,
    NewDocumentInput,
    NewerInput,
    OperationPage,
    OperationQuery,
    OperationShown,
    OperationsImported,
    PlanShown,
    UpdatedShown,
    UpdateInput,
)
from mcp_app.api.filtering import DocumentFilter, asked
from mcp_app.api.formats import JsonParser
from mcp_app.api.openapi import described
from mcp_app.api.permissions import seeing, to
from mcp_app.catalogue.documents import choosing, importing, storing, updating
from mcp_app.catalogue.documents.fetching import content_of
from mcp_app.catalogue.documents.packing import unpacked_survey
from mcp_app.catalogue.sources.http.openapi.survey import SurveyedOperation
from mcp_app.execution.background import documents
from mcp_app.models import ApiDocument

IMPORT = to("add_apidocument", "add_tool")
UPDATE = to("change_apidocument", "change_tool")
PUBLISH = to("add_apidocument", "add_tool", "publish_entries")
LARGE = ("content", "survey", "incoming", "newer")


class DocumentViews(ApiViewSet):
    """OpenAPI documents."""

    queryset = ApiDocument.objects.all()
    serializer_class = DocumentShown
    parser_classes: Any = (JsonParser, MultiPartParser)
    filters = DocumentFilter
    order = "name"
    lookup_field = "name"
    lookup_value_converter = "slug"
    needs = {
        "list": seeing("apidocument"),
        "retrieve": seeing("apidocument"),
        "operations": seeing("apidocument"),
        "create": IMPORT,
        "select": IMPORT,
        "publish": PUBLISH,
        "fetch": UPDATE,
        "changes": UPDATE,
        "update_tools": UPDATE,
        "destroy": to("delete_apidocument"),
    }

    @described(responses=DocumentListed(many=True))
    def list(self, request: Request) -> Response:
        """List all OpenAPI documents."""
        return self.page(self.get_queryset().defer(*LARGE), DocumentListed)

    def retrieve(self, request: Request, name: str) -> Response:
        """Retrieve an OpenAPI document.

        While a worker reads a large document, `state` is `reading`. If it cannot be read, `problem` has the
        reason.
        """
        return Response(self.get_serializer(self.get_object()).data)

    @described(
        request={"application/json": NewDocumentInput, "multipart/form-data": NewDocumentInput},
        responses={
            201: OpenApiResponse(DocumentShown, description="The document was read."),
            202: OpenApiResponse(DocumentShown, description="A worker reads the document."),
        },
    )
    def create(self, request: Request) -> Response:
        """Store an OpenAPI document.

        Give one of `url`, `text` and `file`. No tool is created. An unusable document is refused with 422.
        """
        given = _validated(NewDocumentInput(data=request.data))
        data = content_of(url=given.get("url", ""), file=given.pop("file", None), text=given.pop("text", ""))
        row = documents.receive(data=data, actor=request.user, **given)
        return self._received(row, 201)

    @described(parameters=[OperationQuery], responses=OperationPage)
    @action(detail=True)
    def operations(self, request: Request, name: str) -> Response:
        """List the operations of an OpenAPI document."""
        how = asked(OperationQuery, request).validated_data
        found = [each for each in unpacked_survey(self.get_object().survey) if _matches(each, how)]
        end = how["offset"] + how["limit"]
        address = replace_query_param(request.build_absolute_uri(), "offset", end)
        return Response(
            {
                "count": len(found),
                "tokens": sum(each.tokens for each in found),
                "next": address if end < len(found) else None,
                "results": OperationShown(found[how["offset"] : end], many=True).data,
            }
        )

    @described(request=ImportInput, responses=OperationsImported)
    @action(detail=True, methods=["post"], url_path="import")
    def select(self, request: Request, name: str) -> Response:
        """Save drafts of tools for operations of an OpenAPI document.

        The server and the credentials are stored with the document. A repeated request skips what exists.
        """
        given = _validated(ImportInput(data=request.data))
        row = self.get_object()
        storing.document_of(row)
        patterns, tags, every = given["operations"], given["tags"], given["all"]
        found = choosing.chosen(unpacked_survey(row.survey), patterns=patterns, tags=tags, every=every)
        keys = [each.key for each in found]
        if not keys:
            raise ValidationError({"operations": ["No operation fits."]})
        choices = {name: given[name] for name in ("server", "credentials") if name in given}
        storing.save_choices(row=row, actor=request.user, **choices)
        done = importing.import_operations(
            row=row,
            keys=keys,
            actor=request.user,
            names=given["names"],
            content_types=given["content_types"],
            publish=given["publish"],
        )
        drafts = [draft.key for draft in done.drafts]
        shown = {"published": done.published, "skipped": done.skipped, "revision": done.revision}
        return Response({"drafts": drafts, **shown})

    @described(request=None, responses=OperationsImported)
    @action(detail=True, methods=["post"])
    def publish(self, request: Request, name: str) -> Response:
        """Publish all drafts of new tools and accepted changes of an OpenAPI document.

        Makes one revision.
        """
        row = self.get_object()
        drafts = importing.waiting_drafts_of(row, request.user)
        revision = importing.publish_imported(row=row, actor=request.user)
        published = [draft.key for draft in drafts.values()] if revision else []
        return Response({"drafts": [], "published": published, "skipped": {}, "revision": revision})

    @described(
        request={"application/json": NewerInput, "multipart/form-data": NewerInput},
        responses={
            200: OpenApiResponse(DocumentShown, description="The newer version was read."),
            202: OpenApiResponse(DocumentShown, description="A worker reads the newer version."),
        },
    )
    @action(detail=True, methods=["post"])
    def fetch(self, request: Request, name: str) -> Response:
        """Fetch or upload a newer version of an OpenAPI document.

        Without `text` and `file` it is fetched from the document's URL. No tool changes.
        """
        given = _validated(NewerInput(data=request.data))
        file, text = given.get("file"), given.get("text", "")
        data = content_of(url="", file=file, text=text) if file or text else None
        row = documents.receive_newer(row=self.get_object(), data=data, actor=request.user)
        return self._received(row, 200)

    @described(responses=PlanShown)
    @action(detail=True, url_path="update")
    def changes(self, request: Request, name: str) -> Response:
        """Retrieve the differences between an OpenAPI document and its tools.

        The newer version is compared if there is one.
        """
        return Response(PlanShown(updating.planned(self.get_object())).data)

    @described(request=UpdateInput, responses=UpdatedShown)
    @changes.mapping.post
    def update_tools(self, request: Request, name: str) -> Response:
        """Save drafts of accepted differences.

        The newer version is then in use. Other differences are listed again.
        """
        given = _validated(UpdateInput(data=request.data))
        done = updating.update_tools(
            row=self.get_object(), accepted=given["accepted"], actor=request.user, seen=given["sha256"]
        )
        return Response({"drafts": [draft.key for draft in done.drafts], "skipped": done.skipped})

    @described(responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        """Delete an OpenAPI document.

        Its tools and drafts stay, but can no longer be updated.
        """
        storing.delete_document(row=self.get_object(), actor=request.user)
        return Response(status=204)

    def _received(self, row: ApiDocument, status: int) -> Response:
        is_reading = row.state == ApiDocument.State.READING
        return Response(self.get_serializer(row).data, status=202 if is_reading else status)


def _validated(given: Any) -> dict[str, Any]:
    given.is_valid(raise_exception=True)
    found: dict[str, Any] = given.validated_data
    return found


def _matches(operation: SurveyedOperation, how: dict[str, Any]) -> bool:
    text = how.get("text", "").lower()
    texts = (operation.key, operation.operation_id, operation.name, operation.summary)
    return (
        how.get("method", operation.method) == operation.method
        and ("tag" not in how or how["tag"] in operation.tags)
        and (how["usable"] is None or how["usable"] is not bool(operation.refused))
        and (not text or any(text in each.lower() for each in texts))
    )
