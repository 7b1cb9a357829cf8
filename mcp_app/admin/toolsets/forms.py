"""The form of a toolset, and the notation of its rules: one rule a line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from django import forms
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from mcp_app.admin.base import Select
from mcp_app.admin.entries.entry_drafts import draft_as_seen
from mcp_app.admin.widgets import JsonField
from mcp_app.catalogue.changes.services import ChangedMeanwhile
from mcp_app.catalogue.snapshots.toolsets import LISTS, path_of
from mcp_app.catalogue.toolsets.checks import RULE
from mcp_app.catalogue.toolsets.contents import Member, choices, matching_rules
from mcp_app.catalogue.toolsets.drafts import drafted, save_toolset_draft
from mcp_app.catalogue.toolsets.groups import memberships_of, names_of
from mcp_app.catalogue.toolsets.services import save_toolset
from mcp_app.connect.address import address_for
from mcp_app.interface.text import marked
from mcp_app.models import Draft, Toolset

_TEXT: Final = {"class": "mcp-input", "autocomplete": "off", "spellcheck": "false"}
# The tabs in the order of the form: key, title and fields.
TABS: Final = (
    ("general", "General", ("slug", "title", "instructions", "enabled", "is_default")),
    ("entries", "Entries", ("searches", "rules", "members", "excluded", "overrides")),
    ("access", "Access", ("audience", "groups")),
)
_PARTS: Final = ", ".join(f"{part}:" for part in RULE)
_KINDS: Final = ", ".join(LISTS)
_STORED: Final = ("title", "instructions", "enabled", "is_default", "searches", "audience")


class FormTab(NamedTuple):
    """A tab: its address within the page, title, number of errors, and the fields that it shows."""

    name: str
    title: str
    errors: int
    fields: list[Any]


def _help(name: str) -> str:
    field: Any = Toolset._meta.get_field(name)
    return str(field.help_text)


class ToolsetForm(forms.Form):
    """The values of a toolset, or of its draft. A stored toolset keeps its slug."""

    slug = forms.CharField(
        label="Name", max_length=50, widget=forms.TextInput(_TEXT), help_text=_help("slug")
    )
    title = forms.CharField(
        max_length=200, required=False, widget=forms.TextInput(_TEXT), help_text=_help("title")
    )
    instructions = forms.CharField(
        required=False,
        widget=forms.Textarea({"class": "mcp-input", "rows": 4}),
        help_text=_help("instructions"),
    )
    enabled = forms.BooleanField(required=False, initial=True, help_text=_help("enabled"))
    is_default = forms.BooleanField(label="Served at /mcp", required=False, help_text=_help("is_default"))
    searches = forms.BooleanField(
        label="Search instead of a list", required=False, help_text=_help("searches")
    )
    rules = forms.CharField(
        required=False,
        widget=forms.Textarea({**_TEXT, "rows": 3, "placeholder": "tag:billing\nkind:tool prefix:shop_"}),
        help_text="One rule per line, such as tag:billing. Combine kind:, tag:, prefix: and source: in a "
        "line. Entries that match the whole line are included, also those added later.",
    )
    members = forms.MultipleChoiceField(required=False)
    excluded = forms.CharField(
        label="Except",
        required=False,
        widget=forms.Textarea({**_TEXT, "rows": 2, "placeholder": "tool shop_delete_order"}),
        help_text="One entry per line, as kind and name, such as tool echo. It is not included, even if a "
        "rule matches it.",
    )
    overrides = JsonField(
        shape=dict,
        required=False,
        initial=dict,
        help_text="Title, description, search words (keywords) and fixed arguments for this toolset only, "
        'such as {"tool search": {"title": "Search orders", "fixed_arguments": {"limit": 10}}}.',
    )
    audience = forms.ChoiceField(
        label="Who can use it", choices=Toolset.Audience.choices, widget=Select(), initial="groups"
    )
    groups = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple(),
        help_text="Members of one of these groups can use it. Entries that need a permission still need it.",
    )

    def __init__(
        self,
        request: HttpRequest,
        row: Toolset | None = None,
        draft: Draft | None = None,
        without: Collection[str] = (),
    ) -> None:
        """Build the form of a stored toolset or, without ``row``, of a new one.

        The form shows the values of ``draft``, and leaves the members ``without`` out.
        """
        shown = row if draft is None else drafted(draft)
        initial = {} if shown is None else _initial(shown, without)
        super().__init__(request.POST if request.method == "POST" else None, initial=initial)
        self._row, self._actor = row, request.user
        self._draft = draft_as_seen(request.POST.get("mcp-draft", ""))
        # Only digits, so that the number fits into a query.
        seen = request.POST.get("seen", "")
        self._seen = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 19 else None
        self._why = request.POST.get("why", "")
        if row is not None:
            del self.fields["slug"]
        else:
            self.fields["slug"].widget.attrs["autofocus"] = True
            self.fields[
                "slug"
            ].help_text = (
                f"Lower-case letters, digits and -. The address is {address_for(request, path_of('NAME'))}."
            )
        self.picked = choices()
        stored = set(initial.get("members", ()))
        offered = [each.identity for each in self.picked]
        self.missing = sorted(stored - set(offered))
        self._choose("members", [(each, each) for each in (*offered, *self.missing)])
        names = Group.objects.order_by("name").values_list("name", flat=True)
        self._choose("groups", [(name, marked(name)) for name in names])

    def _choose(self, name: str, found: list[tuple[str, str]]) -> None:
        field: Any = self.fields[name]
        field.choices = found

    @property
    def chosen(self) -> set[str]:
        """The selected members, as entered or stored."""
        found: Any = self["members"].value()
        return set(found or ())

    def picker(self) -> list[tuple[Member, bool]]:
        """Return all entries, each with True if it is selected. Selected ones come first."""
        chosen = self.chosen
        found = [(each, each.identity in chosen) for each in self.picked]
        return sorted(found, key=lambda pair: not pair[1])

    def tabs(self) -> list[FormTab]:
        """Return the tabs with their fields."""
        found = []
        for name, title, names in TABS:
            errors = sum(1 for each in names if each in self.errors)
            shown = [self[each] for each in names if each in self.fields and each != "members"]
            found.append(FormTab(name, title, errors, shown))
        return found

    def clean_rules(self) -> list[dict[str, str]]:
        """Return the rules of all lines."""
        return [_rule(line) for line in self.cleaned_data["rules"].splitlines() if line.strip()]

    def clean_excluded(self) -> list[str]:
        """Return the excluded entries of all lines, as identities of members."""
        return [_excluded(line) for line in self.cleaned_data["excluded"].splitlines() if line.strip()]

    def stored(self) -> Toolset | None:
        """Return the stored toolset. If it is refused, add the errors and return None."""
        found: Toolset | None = self._written(save_toolset, why=self._why)
        return found

    def saved_draft(self) -> Draft | None:
        """Return the stored draft. If it is refused, add the errors and return None."""
        found: Draft | None = self._written(save_toolset_draft, note=self._why, draft=self._draft)
        return found

    def _written(self, write: Any, **more: Any) -> Any:
        if not self.is_valid():
            return None
        given = dict(self.cleaned_data)
        try:
            given["members"] = _members(given["members"], given.pop("excluded"), given.pop("overrides") or {})
            given["permissions"] = memberships_of(given.pop("groups"))
            return write(actor=self._actor, toolset=self._row, seen=self._seen, **more, **given)
        except ChangedMeanwhile as error:
            self.add_error(None, error.messages)
        except ValidationError as error:
            by_field = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
            for name, problems in by_field.items():
                self.add_error(name if name in self.fields else None, problems)
        return None


def _initial(row: Toolset, without: Collection[str]) -> dict[str, Any]:
    own = {_identity(each): each for each in row.members}
    members = [key for key, each in own.items() if not each.get("excluded") and key not in without]
    excluded = [key for key, each in own.items() if each.get("excluded")]
    # Without their names, these entries may still match a rule.
    excluded += sorted(matching_rules(row) & set(without) - set(excluded)) if without else []
    texts = {
        key: {name: value for name, value in own[key].items() if name not in ("kind", "key")}
        for key in members
    }
    return {
        "slug": row.slug,
        **{name: getattr(row, name) for name in _STORED},
        "rules": "\n".join(rule_line(rule) for rule in row.rules),
        "members": members,
        "excluded": "\n".join(excluded),
        "overrides": {key: values for key, values in texts.items() if values},
        "groups": names_of(row.permissions),
    }


def _identity(member: Mapping[str, Any]) -> str:
    return f"{member['kind']} {member['key']}"


def rule_line(rule: Mapping[str, str]) -> str:
    """Return a rule as a line of the form."""
    return " ".join(f"{name}:{rule[name]}" for name in RULE if name in rule)


def readable_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a stored state for display: a line for each member and rule, and groups by name."""
    return {
        **{name: value for name, value in state.items() if name != "permissions"},
        "groups": ", ".join(names_of(state.get("permissions", ()))),
        "members": "\n".join(map(_member_line, state.get("members", ()))),
        "rules": "\n".join(map(rule_line, state.get("rules", ()))),
    }


def _member_line(member: Mapping[str, Any]) -> str:
    own = {name: value for name, value in member.items() if name not in ("kind", "key", "excluded")}
    more = json.dumps(own, ensure_ascii=False, sort_keys=True) if own else ""
    line = f"{_identity(member)} {more}".rstrip()
    return f"except {line}" if member.get("excluded") else line


def _rule(line: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in line.split():
        name, colon, value = word.partition(":")
        if not (colon and value and name in RULE) or name in found:
            raise ValidationError(
                f"{marked(word)} is not known here. A rule can have {_PARTS}, each once, such as tag:billing."
            )
        found[name] = value
    return found


def _excluded(line: str) -> str:
    kind, _, key = line.strip().partition(" ")
    if kind not in LISTS or not key.strip():
        raise ValidationError(
            f"{marked(line.strip())}: write the kind ({_KINDS}), a space and the name, such as tool echo."
        )
    return f"{kind} {key.strip()}"


def _members(
    chosen: Iterable[str], excluded: Iterable[str], overrides: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return members with their overrides, and the excluded ones.

    Raises ValidationError for an override without a member, and for an excluded member.
    """
    keys, others = list(dict.fromkeys(chosen)), list(dict.fromkeys(excluded))
    if unknown := sorted(overrides.keys() - set(keys)):
        raise ValidationError({"overrides": [_not_selected(unknown[0])]})
    if not all(isinstance(each, dict) for each in overrides.values()):
        raise ValidationError({"overrides": ["Each override must be an object."]})
    if both := sorted(set(keys) & set(others)):
        raise ValidationError({"excluded": [f"{marked(both[0])} is also a selected entry."]})
    named = [{**overrides.get(each, {}), **_named(each)} for each in keys]
    return named + [{**_named(each), "excluded": True} for each in others]


def _not_selected(identity: str) -> str:
    kind, _, key = identity.partition(" ")
    if kind in LISTS and key:
        return f"{marked(identity)} is not a selected entry."
    return f"{marked(identity)}: write the kind ({_KINDS}), a space and the name, such as tool echo."


def _named(identity: str) -> dict[str, Any]:
    kind, _, key = identity.partition(" ")
    return {"kind": kind, "key": key}
