"""Forms of the pages of upstream servers."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpRequest

from mcp_app import conf
from mcp_app.admin.base import Select
from mcp_app.catalogue.upstreams.configurations import (
    MAX_TEXT,
    ConfigurationError,
    ConfiguredServer,
    read,
)
from mcp_app.catalogue.upstreams.storing import FIELDS, save_upstream
from mcp_app.credentials.services import USE
from mcp_app.models import Credential, Upstream
from mcp_app.upstreams import health

# A form has an attribute "prefix" of its own.
_FORM = {"prefix": "tool_prefix"}
# The fields that most servers need. The others are folded away on the form of a new server.
_FIRST = ("name", "url", "command", "tool_prefix", "credential")
_EXAMPLE = '{"mcpServers": {"crm": {"url": "https://mcp.example.com/mcp"}}}'
_TEXT = {"class": "mcp-input", "autocomplete": "off", "spellcheck": "false"}


def _help(name: str) -> str:
    field: Any = Upstream._meta.get_field(name)
    return str(field.help_text)


class ConfigurationForm(forms.Form):
    """A configuration of a client, which may contain secrets."""

    configuration = forms.CharField(
        max_length=MAX_TEXT,
        widget=forms.Textarea({**_TEXT, "rows": "12", "placeholder": _EXAMPLE}),
    )

    def servers(self) -> list[ConfiguredServer]:
        """Return the servers of a valid form. Add the error and return [] if there are none."""
        try:
            return read(self.cleaned_data["configuration"])
        except ConfigurationError as error:
            self.add_error("configuration", str(error))
            return []


class UpstreamForm(forms.Form):
    """The settings of a server. A stored server keeps its name."""

    name = forms.CharField(max_length=64, widget=forms.TextInput(_TEXT), help_text=_help("name"))
    url = forms.CharField(
        label="URL",
        required=False,
        max_length=2_000,
        widget=forms.TextInput({**_TEXT, "placeholder": _help("url")}),
    )
    command = forms.ChoiceField(required=False, widget=Select(), help_text=_help("command"))
    tool_prefix = forms.CharField(
        label="Prefix",
        required=False,
        max_length=31,
        widget=forms.TextInput(_TEXT),
        help_text=f"{_help('prefix')} Empty: the name of the server.",
    )
    credential = forms.ChoiceField(required=False, widget=Select(), help_text=_help("credential"))
    user_connections = forms.BooleanField(
        label="User connections", required=False, help_text=_help("user_connections")
    )
    oauth_client = forms.ChoiceField(
        label="OAuth client", required=False, widget=Select(), help_text=_help("oauth_client")
    )
    token_exchange = forms.ChoiceField(
        label="Token exchange", required=False, widget=Select(), help_text=_help("token_exchange")
    )
    era = forms.ChoiceField(
        label="Protocol", choices=Upstream.Era.choices, initial=Upstream.Era.AUTO, widget=Select()
    )
    isolation = forms.ChoiceField(
        label="Share sessions",
        choices=Upstream.Isolation.choices,
        initial=Upstream.Isolation.SESSION,
        widget=Select(),
        help_text="Whether callers share a session at the upstream server, if it has sessions.",
    )
    timeout_seconds = forms.FloatField(
        label="Timeout in seconds",
        initial=60,
        min_value=1,
        max_value=900,
        widget=forms.NumberInput({"class": "mcp-input"}),
        help_text=_help("timeout_seconds"),
    )
    sampling = forms.BooleanField(label="Relay sampling", required=False, help_text=_help("sampling"))
    roots = forms.BooleanField(label="Relay roots", required=False, help_text=_help("roots"))
    enabled = forms.BooleanField(required=False, initial=True, help_text=_help("enabled"))

    def __init__(self, request: HttpRequest, row: Upstream | None = None) -> None:
        initial = {} if row is None else {_FORM.get(name, name): getattr(row, name) for name in FIELDS}
        if row is not None:
            initial["timeout_seconds"] = f"{row.timeout_seconds:g}"
        super().__init__(request.POST if request.method == "POST" else None, initial=initial)
        self._row, self._actor = row, request.user
        if row is not None:
            del self.fields["name"]
        commands = {*conf.get().upstream_commands, *({row.command} if row is not None else ())} - {""}
        if commands:
            self.fields["command"].choices = [  # type: ignore[attr-defined]
                ("", "none"), *((name, name) for name in sorted(commands))
            ]  # fmt: skip
        else:
            del self.fields["command"]
            self.fields["url"].required = True
        is_client, is_exchange = (
            Q(kind=kind) for kind in (Credential.Kind.OAUTH_CLIENT, Credential.Kind.TOKEN_EXCHANGE)
        )
        for field, kinds in (
            ("credential", ~is_client & ~is_exchange),
            ("oauth_client", is_client),
            ("token_exchange", is_exchange),
        ):
            choices: Any = self.fields[field]
            choices.choices = [("", "none"), *self._credentials(field, kinds)]

    def first(self) -> list[forms.BoundField]:
        """Return the fields that are always visible."""
        return [field for field in self if field.name in _FIRST]

    def more(self) -> list[forms.BoundField]:
        """Return the other fields."""
        return [field for field in self if field.name not in _FIRST]

    def shows_more(self) -> bool:
        """Return True if the other fields are visible at once: of a stored server, or if one has an error."""
        return self._row is not None or any(field.errors for field in self.more())

    def _credentials(self, field: str, kinds: Q) -> list[tuple[str, str]]:
        """Return the credentials that the user may see, and the one in use."""
        names = {getattr(self._row, field)} if self._row is not None else set()
        if self._actor.has_perm(USE):
            names |= set(Credential.objects.filter(kinds).values_list("name", flat=True))
        return [(name, name) for name in sorted(filter(None, names))]

    def stored(self) -> Upstream | None:
        """Return the stored server. If it is refused, add the errors and return None."""
        if not self.is_valid():
            return None
        given: dict[str, Any] = {
            name: self.cleaned_data[_FORM.get(name, name)]
            for name in FIELDS
            if _FORM.get(name, name) in self.fields
        }
        url = self._row.url if self._row is not None else ""
        try:
            row = save_upstream(
                actor=self._actor, upstream=self._row, name=self.cleaned_data.get("name"), **given
            )
        except ValidationError as error:
            found = error.message_dict
            if "name" in found and not given.get("prefix"):
                # The name is the default of the prefix, so it has the same error.
                found.pop("prefix", None)
            for field, problems in found.items():
                name = _FORM.get(field, field)
                self.add_error(name if name in self.fields else None, problems)
            return None
        if url and row.url != url:
            health.forget(row.pk)
        return row
