"""Drafts on the form of an entry: the submitted action, the pending draft, and redirects after a save."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.contrib.admin.options import IS_POPUP_VAR
from django.contrib.admin.utils import unquote
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode

from mcp_app.admin.base import HAS_UNFOLD
from mcp_app.admin.entries.callers import CallersPages
from mcp_app.admin.entries.differences import label
from mcp_app.admin.entries.draft_card import Between, card_of, changes_since, entry_address
from mcp_app.admin.entries.entry_forms import Intent
from mcp_app.catalogue.changes import pending_drafts, revisions
from mcp_app.catalogue.changes.drafts import check_draft, publish_draft, source_in, states_of
from mcp_app.catalogue.changes.services import may_publish
from mcp_app.catalogue.sources.base import Source
from mcp_app.catalogue.sources.lookup import made_here, maker, makers, source_of
from mcp_app.interface.text import marked, visible
from mcp_app.models import Draft

Entry = Any
SAVE: Final = "Save as draft"


class DraftPages(CallersPages):
    """The part of an entry's pages about drafts. Users who may not publish can only save drafts."""

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return the form class. The user and the submitted action are attached to it as ``intent``."""
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.intent = Intent(
            actor=request.user,
            as_draft="_draft" in request.POST,
            why=request.POST.get("why", ""),
            seen=_digits(request.POST.get("mcp-seen", "")),
            draft=draft_as_seen(request.POST.get("mcp-draft", "")),
            shows=self.shown_draft(request, obj),
            source=self.form_source(request, obj),
        )
        return form

    def form_source(self, request: HttpRequest, entry: Entry | None) -> Source:
        """Return the source of the entry on a form. For a new entry, ``?source=`` names the source."""
        if entry is not None:
            return source_of(entry)
        if (shown := self.shown_draft(request, None)) is not None:
            return source_in(shown, None)
        if "source" not in request.GET:
            return made_here(self.model)
        if (found := maker(self.model, request.GET["source"])) is None:
            raise Http404("Unknown source of new entries.")
        return found

    def add_url(self, source: Source) -> str:
        """Return the URL of the add form for a source, or of the page that replaces that form."""
        if page := source.adding_of(self.model).page:
            return reverse(page)
        named_by = "" if source is made_here(self.model) else f"?{urlencode({'source': source.stored})}"
        return f"{self.page_url('add')}{named_by}"

    def add_choice(self, request: HttpRequest, chosen: Source | None = None) -> list[dict[str, Any]]:
        """Return links to the add forms of the sources of new entries."""
        sources = [each for each in makers(self.model) if each.has_button(self.model)]
        if not self.has_add_permission(request):
            return []
        # A newcomer understands a source without words of its own first.
        sources.sort(key=lambda each: bool(each.adding_of(self.model).offer))
        return [
            {"url": self.add_url(each), "chosen": each is chosen, "texts": each.adding_of(self.model)}
            for each in sources
            if request.user.has_perms(each.adding_of(self.model).permissions)
        ]

    def _add_titles(self, request: HttpRequest) -> dict[str, str]:
        """Return the title of the form for a new entry, and the same for Unfold, whose head lacks it."""
        texts = self.form_source(request, None).adding_of(self.model)
        title = f"Add {texts.noun}"
        return {"title": title, "add_title": title if HAS_UNFOLD else ""}

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the form with the pending draft of the entry."""
        entry = self.get_object(request, unquote(object_id)) if object_id is not None else None
        context = self._draft_context(request, entry)
        return super().changeform_view(request, object_id, form_url, {**context, **(extra_context or {})})

    def _draft_context(self, request: HttpRequest, entry: Entry | None) -> dict[str, Any]:
        shown = self.shown_draft(request, entry)
        waits = shown or (pending_drafts.draft_of(entry) if entry is not None else None)
        may_save = self.has_change_permission(request, entry) if entry else self.has_add_permission(request)
        directly = may_publish(request.user) and shown is None
        choosing = entry is None and shown is None
        choice = self.add_choice(request, self.form_source(request, None)) if choosing else []
        context = {
            **(self._add_titles(request) if choosing else {}),
            "add_choice": choice if len(choice) > 1 else [],
            "card": card_of(request, waits, entry) if waits is not None else None,
            "shows_draft": shown is not None,
            "draft_button": draft_button(request, waits, shown) if may_save else "",
            "seen": revisions.last_revision(entry) if entry is not None else 0,
            "why": request.POST.get("why", shown.note if shown is not None else ""),
            "may_say_why": may_save,
            "meanwhile": _meanwhile(request, entry),
        }
        buttons = ("show_save", "show_save_and_continue", "show_save_and_add_another")
        hidden = () if directly else buttons if shown is None else (*buttons, "show_delete")
        return {**context, **dict.fromkeys(hidden, False)}

    def draft_form_url(self, draft: Draft, entry: Entry | None) -> str:
        """Return the URL of the form that edits a draft."""
        return entry_address(draft)

    def shown_draft(self, request: HttpRequest, entry: Entry | None) -> Draft | None:
        """Return the draft that ``?draft=`` refers to. The form shows the values of this draft."""
        return draft_in_address(request, self.model.KIND, entry)

    # The page of drafts calls these methods, which are others for rows that are not entries.

    def may_draft(self, request: HttpRequest, entry: Entry | None) -> bool:
        """Return True if the user may save drafts of the entry, or of new entries if ``entry`` is None."""
        return bool(self.has_change_permission(request, entry) if entry else self.has_add_permission(request))

    def draft_states(self, draft: Draft, entry: Entry | None) -> tuple[Any, Any]:
        """Return the entry's state without the draft (None for a new entry) and with the draft."""
        return states_of(draft, entry)

    def draft_effect(self, draft: Draft, entry: Entry | None) -> Any:
        """Return None, because the differences of an entry show the whole effect."""
        return None

    def check_draft(self, draft: Draft) -> None:
        """Raise the ValidationError that publishing this draft would raise."""
        check_draft(draft)

    def publish_draft(self, **given: Any) -> Entry:
        """Publish a draft, and return the entry. The arguments are those of the service."""
        return publish_draft(**given)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Add the drafts that are deleted together with their entries."""
        going, *rest = super().get_deleted_objects(objs, request)
        kind = self.model.KIND
        waits = Draft.objects.filter(kind=kind, entry_id__in=[entry.pk for entry in objs])
        return [*going, *(format_html("Draft: {}", visible(draft.key)) for draft in waits)], *rest

    # Django calls these hooks after a save. Its own log must contain written rows only, and no drafts.

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Log the addition unless a draft was saved."""
        return None if _saved(obj) else super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Log the change unless a draft was saved or nothing changed."""
        return None if _saved(obj) or obj.is_as_before else super().log_change(request, obj, message)

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Redirect to the saved draft, or to the page that the pressed button requests."""
        if IS_POPUP_VAR in request.POST:
            return super().response_add(request, obj, post_url_continue)
        saved = _saved(obj)
        return self._to_draft(request, saved) if saved else self._to_next(request, obj, "added")

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Redirect to the saved draft, or to the page that the pressed button requests."""
        if IS_POPUP_VAR in request.POST:
            return super().response_change(request, obj)
        saved = _saved(obj)
        return self._to_draft(request, saved) if saved else self._to_next(request, obj, "changed")

    def _to_next(self, request: HttpRequest, entry: Entry, done: str) -> HttpResponse:
        """Show the result with a link to the callers of the entry, and redirect.

        Django's own message has no such link.
        """
        if entry.is_as_before:
            self.message_user(request, "Nothing changed.", messages.INFO)
        else:
            address = self.page_url("change", entry)
            text = format_html(
                'The {} “<a href="{}">{}</a>” was {} successfully.',
                self.noun_of(entry),
                address,
                marked(entry),
                done,
            )
            if callers := self.callers_url(request, entry):
                text = format_html('{} <a href="{}">Who can use it</a>', text, callers)
            self.message_user(request, text, messages.SUCCESS)
            for name, texts in source_of(entry).warnings(entry).items():
                warning = marked(f"{label(name).capitalize()}: {' '.join(texts)}")
                self.message_user(request, warning, messages.WARNING)
        addresses = {
            "_continue": self.page_url("change", entry),
            "_addanother": self.add_url(source_of(entry)),
        }
        for button, address in addresses.items():
            if button in request.POST:
                return HttpResponseRedirect(self.with_filters(request, address))
        return self.response_post_save_change(request, entry)

    def noun_of(self, entry: Entry) -> str:
        """Return the word for an entry of its source, such as "preset"."""
        source = source_of(entry)
        return str(self.opts.verbose_name) if source.follows else source.adding_of(self.model).noun

    def _to_draft(self, request: HttpRequest, draft: Draft) -> HttpResponse:
        text = f"Draft of {marked(draft.key)} saved. Clients do not see it until it is published."
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(reverse(f"{self.admin_site.name}:mcp_app_draft_change", args=[draft.pk]))


def _meanwhile(request: HttpRequest, entry: Entry | None) -> list[Between]:
    """Return the changes that others made to the entry after this form was opened."""
    seen = _digits(request.POST.get("mcp-seen", ""))
    return changes_since(entry, seen) if entry is not None and seen is not None else []


def draft_button(request: HttpRequest, waits: Draft | None, shown: Draft | None) -> str:
    """Return the label of the button that saves a draft, or "" if the form must not save one."""
    if shown is not None or waits is None:
        return SAVE
    # Another user has saved a draft first. The form keeps the user's input, and the button names the
    # consequence.
    return "Replace the draft" if "_draft" in request.POST else ""


def _saved(obj: Any) -> Draft | None:
    return getattr(obj, "saved_draft", None)


def draft_in_address(request: HttpRequest, kind: str, entry: Entry | None) -> Draft | None:
    """Return the draft of an entry, or of a new one, that ``?draft=`` refers to."""
    pk, number = _digits(request.GET.get("draft", "")), entry.pk if entry is not None else None
    return None if pk is None else Draft.objects.filter(pk=pk, kind=kind, entry_id=number).first()


def draft_as_seen(token: str) -> Draft | None:
    """Return the id and version of a draft from a form, or None if the form showed no draft."""
    pk, _, version = token.partition(":")
    number, saved = _digits(pk), _digits(version)
    return Draft(pk=number, version=saved) if number is not None and saved is not None else None


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
