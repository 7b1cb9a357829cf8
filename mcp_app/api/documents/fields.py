"""Serializers of OpenAPI documents, their operations, and the changes of an update."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from mcp_app.api.base import InputSerializer
from mcp_app.api.formats import RowSerializer
from mcp_app.catalogue.documents import storing
from mcp_app.catalogue.documents.importing import MAX_TOOLS
from mcp_app.catalogue.documents.tools import drafts_of, tools_of
from mcp_app.catalogue.sources.http.openapi.reading import METHODS
from mcp_app.catalogue.sources.http.openapi.servers import servers_of
from mcp_app.models import ApiDocument

MAX_KEY = 2_100
MAX_LISTED = 200
LISTED = (
    "name", "title", "url", "prefix", "server", "credentials", "state", "progress", "problem", "version",
    "sha256", "newer_sha256", "operations", "fetched_at", "created_at", "updated_at",
)  # fmt: skip


class DocumentListed(RowSerializer[ApiDocument]):
    """An OpenAPI document. `newer_sha256` is set while a newer version waits for decisions."""

    class Meta:
        model = ApiDocument
        fields: Any = LISTED


class VariableShown(serializers.Serializer[Any]):
    """A variable in the address of a server."""

    name = serializers.CharField()
    default = serializers.CharField()
    choices = serializers.ListField(child=serializers.CharField(), help_text="Empty: any value.")


class ServerShown(serializers.Serializer[Any]):
    """A server of a document."""

    url = serializers.CharField()
    description = serializers.CharField()
    problem = serializers.CharField(help_text="The reason why the address cannot be used, or empty.")
    variables = VariableShown(many=True)


class SecurityShown(serializers.Serializer[Any]):
    """A security scheme of a document, and the credential that is chosen for it."""

    name = serializers.CharField()
    kind = serializers.CharField(help_text="The kind of credential, or empty if none can serve the scheme.")
    hint = serializers.CharField()
    credential = serializers.CharField()


class DocumentShown(DocumentListed):
    """An OpenAPI document, with its servers, its security and its tools."""

    servers = serializers.SerializerMethodField()
    security = serializers.SerializerMethodField()
    tools = serializers.SerializerMethodField(help_text="The names of its tools by operation.")
    drafts = serializers.SerializerMethodField(help_text="The names of drafts of new tools by operation.")

    class Meta(DocumentListed.Meta):
        fields = (*LISTED, "servers", "security", "tools", "drafts")

    @extend_schema_field(ServerShown(many=True))
    def get_servers(self, row: ApiDocument) -> Any:
        if row.content is None:
            return []
        return ServerShown(servers_of(storing.document_of(row)), many=True).data

    @extend_schema_field(SecurityShown(many=True))
    def get_security(self, row: ApiDocument) -> Any:
        if row.content is None:
            return []
        schemes = storing.converter_of(row, storing.document_of(row)).schemes
        return [
            {
                "name": name,
                "kind": scheme.kind,
                "hint": scheme.hint,
                "credential": row.credentials.get(name, ""),
            }
            for name, scheme in schemes.items()
        ]

    def get_tools(self, row: ApiDocument) -> dict[str, str]:
        return {key: tool.name for key, tool in tools_of(row).items()}

    def get_drafts(self, row: ApiDocument) -> dict[str, str]:
        return {key: draft.key for key, draft in drafts_of(row).items()}


class FileInput(InputSerializer):
    """A document, as one of three."""

    url = serializers.CharField(
        required=False,
        max_length=2_000,
        help_text="The address of the document, which is fetched now and for updates.",
    )
    text = serializers.CharField(
        required=False, trim_whitespace=False, help_text="The document, as JSON or YAML."
    )
    file = serializers.FileField(required=False, help_text="The document as a file (`multipart/form-data`).")


class NewDocumentInput(FileInput):
    """A new document: `url`, `text` or `file`."""

    name = serializers.CharField(
        required=False,
        max_length=64,
        help_text="The name of the document. The default is the prefix or the title.",
    )
    prefix = serializers.CharField(required=False, max_length=31, help_text="Put before each tool name.")


class NewerInput(InputSerializer):
    """A newer version as `text` or `file`. Without both, it is fetched from the document's URL."""

    text = serializers.CharField(required=False, trim_whitespace=False)
    file = serializers.FileField(required=False)


class OperationShown(serializers.Serializer[Any]):
    """An operation of a document."""

    key = serializers.CharField(help_text="Method and path, such as `GET /orders/{id}`.")
    method = serializers.CharField()
    path = serializers.CharField()
    operation_id = serializers.CharField()
    name = serializers.CharField(help_text="The proposed name of its tool.")
    tags = serializers.ListField(child=serializers.CharField())
    summary = serializers.CharField()
    deprecated = serializers.BooleanField()
    body = serializers.CharField(help_text="The content type of the body, or empty.")
    bodies = serializers.ListField(child=serializers.CharField(), help_text="All content types of the body.")
    security = serializers.ListField(child=serializers.CharField())
    tokens = serializers.IntegerField(help_text="The estimated tokens of its tool in `tools/list`.")
    refused = serializers.CharField(help_text="The reason why it cannot become a tool, or empty.")
    notes = serializers.ListField(child=serializers.CharField())
    recursive = serializers.BooleanField(help_text="A type contains itself, which some clients refuse.")


class OperationPage(serializers.Serializer[Any]):
    """A page of operations. `count` and `tokens` are those of all operations that match."""

    count = serializers.IntegerField()
    tokens = serializers.IntegerField()
    next = serializers.URLField(allow_null=True)
    results: Any = OperationShown(many=True)


class OperationQuery(serializers.Serializer[Any]):
    """Filters of operations."""

    method = serializers.ChoiceField(required=False, choices=[name.upper() for name in METHODS])
    tag = serializers.CharField(required=False, max_length=100)
    text = serializers.CharField(
        required=False, max_length=200, help_text="A part of the path, the id or the summary."
    )
    usable = serializers.BooleanField(required=False, allow_null=True, default=None)
    limit = serializers.IntegerField(default=50, min_value=1, max_value=MAX_LISTED)
    offset = serializers.IntegerField(default=0, min_value=0, max_value=1_000_000)


class ImportInput(InputSerializer):
    """The choice of operations, and where and how their tools send requests."""

    operations = serializers.ListField(
        child=serializers.CharField(max_length=MAX_KEY),
        default=list,
        max_length=MAX_TOOLS,
        help_text="Keys, paths or operation ids; `*` stands for any text.",
    )
    tags = serializers.ListField(
        child=serializers.CharField(max_length=100), default=list, max_length=MAX_TOOLS
    )
    all = serializers.BooleanField(default=False, help_text="All operations that are not deprecated.")
    names = serializers.DictField(
        child=serializers.CharField(max_length=128),
        default=dict,
        help_text="Names of tools by operation key, in place of the proposed ones.",
    )
    content_types = serializers.DictField(
        child=serializers.CharField(max_length=200),
        default=dict,
        help_text="Content types of bodies by operation key. The default is JSON, if the operation has it.",
    )
    server = serializers.CharField(
        required=False,
        max_length=2_000,
        help_text="The address of the API. The default is the first server of the document. An `http:` "
        "address has to be given.",
    )
    credentials = serializers.DictField(
        child=serializers.CharField(max_length=64, allow_blank=True),
        required=False,
        help_text="Names of stored credentials by security scheme.",
    )
    publish = serializers.BooleanField(
        default=False, help_text="Publish the tools. This also requires `mcp_app.publish_entries`."
    )


class OperationsImported(serializers.Serializer[Any]):
    """The outcome of an import. An operation that is a tool or a draft already is skipped."""

    drafts = serializers.ListField(child=serializers.CharField())
    published = serializers.ListField(child=serializers.CharField())
    skipped = serializers.DictField(child=serializers.CharField(), help_text="Reasons by operation key.")
    revision = serializers.IntegerField(help_text="The new revision, or 0 if nothing was published.")


class PartShown(serializers.Serializer[Any]):
    """A changed part of a tool. With `kept`, an administrator's words stay."""

    name = serializers.CharField()
    old = serializers.JSONField()
    new = serializers.JSONField()
    kept = serializers.BooleanField()


class OperationChange(serializers.Serializer[Any]):
    """A tool whose operation has changed, or has left the document."""

    key = serializers.CharField()
    tool = serializers.CharField(source="tool.name")
    action = serializers.ChoiceField(choices=["changed", "gone"])
    reason = serializers.CharField(help_text="The reason why the operation is `gone`, or empty.")
    has_draft = serializers.BooleanField(source="waits", help_text="A draft has to be published first.")
    parts: Any = PartShown(many=True)


class PlanShown(serializers.Serializer[Any]):
    """The differences between a document and its tools."""

    sha256 = serializers.CharField(help_text="The digest of the compared document.")
    changes: Any = OperationChange(many=True)
    added = serializers.ListField(child=serializers.CharField(), help_text="Keys of new operations.")
    unchanged = serializers.IntegerField()


class UpdateInput(InputSerializer):
    """The changes that become drafts. The newer version is then the document in use."""

    accepted = serializers.ListField(
        child=serializers.CharField(max_length=MAX_KEY), help_text="Operation keys."
    )
    sha256 = serializers.CharField(
        max_length=64,
        default="",
        help_text="The digest that the differences were shown with; 409 if it differs.",
    )


class UpdatedShown(serializers.Serializer[Any]):
    """The outcome of an update."""

    drafts = serializers.ListField(child=serializers.CharField())
    skipped = serializers.DictField(child=serializers.CharField(), help_text="Reasons by operation key.")
