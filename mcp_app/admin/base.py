"""Base classes of the admin pages.

They extend Unfold's classes if Unfold is installed, and Django's otherwise. They do not depend on any model.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import getmembers_static
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from django.apps import apps
from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.forms import Media
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.templatetags.static import static
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.list_filters import ListedLookups, NamedList
from mcp_app.auth.time_zone import zone_script
from mcp_app.interface.text import marked

HAS_UNFOLD = apps.is_installed("unfold")

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as SkinAdmin
    from django.forms import ModelForm, Select, Textarea, TextInput

    FILE_CLASSES: list[str]
else:
    from django.forms import ModelForm as _ModelForm

    if HAS_UNFOLD:
        from unfold.admin import ModelAdmin as _SkinAdmin
        from unfold.widgets import FILE_CLASSES
        from unfold.widgets import UnfoldAdminSelectWidget as Select
        from unfold.widgets import UnfoldAdminTextareaWidget as Textarea
        from unfold.widgets import UnfoldAdminTextInputWidget as TextInput
    else:
        from django.contrib.admin import ModelAdmin as _SkinAdmin
        from django.contrib.admin.widgets import AdminTextareaWidget as Textarea
        from django.contrib.admin.widgets import AdminTextInputWidget as TextInput
        from django.forms import Select

        FILE_CLASSES = []

    class SkinAdmin(_SkinAdmin):
        """The base class of the installed admin, with the subscript syntax that type annotations need."""

        def __class_getitem__(cls, item: object) -> type:
            return cls

    class ModelForm(_ModelForm):
        """Django's form class, with the subscript syntax that type annotations need."""

        def __class_getitem__(cls, item: object) -> type:
            return cls


__all__ = [
    "FILE_CLASSES",
    "HAS_UNFOLD",
    "ModelAdmin",
    "ModelForm",
    "ReadOnlyAdmin",
    "Select",
    "TextInput",
    "Textarea",
]

M = TypeVar("M", bound=Model)

FOR_SLUGS = ("/urlify.js", "/prepopulate.js", "/xregexp.js", "/xregexp.min.js")


def notices_script() -> str:
    """Return the URL of the script for browser notifications, or "" if the console is not installed.

    The address of the WebSocket is in the fragment.
    """
    try:
        return f"{static('mcp_app/notices.js')}#{reverse('mcp_console:sessions')}ws"
    except NoReverseMatch:
        return ""


def anything_script() -> str:
    """Return the URL of the script for the global search, or "" if the search has no URL.

    The address of the search is in the fragment.
    """
    try:
        return f"{static('mcp_app/anything.js')}#{reverse('mcp_find')}"
    except NoReverseMatch:
        return ""


class _Labelled:
    """A proxy of a row. Its string is the row's string with hidden characters marked."""

    def __init__(self, row: Model) -> None:
        self._row = row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    def __str__(self) -> str:
        return marked(self._row)


class _Titled(_Labelled):
    """A proxy of a row. Its string is the title of the row's page."""

    def __init__(self, row: Model, title: str) -> None:
        super().__init__(row)
        self._title = title

    def __str__(self) -> str:
        return self._title


V = TypeVar("V", bound=Callable[..., HttpResponse | None])
T = TypeVar("T")


def object_button(name: str, permission: str = "") -> Callable[[V], V]:
    """Mark a method as the view of a button.

    The button posts to the row's address followed by ``name``. If ``permission`` is given,
    ``has_<permission>_permission`` must allow it. Otherwise, the view itself checks the user's permissions.
    """

    def mark(view: V) -> V:
        vars(view).update(button=name, permission=permission)
        return view

    return mark


def revoking(address: str, verb: str, what: str, then: str) -> dict[str, str]:
    """Return the button of ``revocable_form.html``, including the text of its confirmation.

    The button revokes the object that the page shows.
    """
    words = {"label": f"{verb} {what}…", "yes": f"{verb} the {what}", "no": "Keep it"}
    return {"address": address, "question": f"{verb} this {what}? {then}", **words}


class ModelAdmin(NamedList, ListedLookups, SkinAdmin[M]):
    """Base class of all admin pages.

    It adds the local style sheets, collapsed list filters, and buttons that post to the address of a row.
    """

    list_per_page = 50
    show_full_result_count = False
    # Unfold's options for the layout of forms and lists. Django's admin ignores these options.
    list_filter_sheet = True
    compressed_fields = False
    # Unfold reads this attribute for every row. If it were missing, the template would search the whole
    # context for it.
    list_sections: ClassVar[tuple[()]] = ()

    @property
    def media(self) -> Media:
        """Scripts and style sheets of the base class and of this app, all of them local.

        If no field is prepopulated, the scripts for slugs are left out.
        """
        own: list[Any] = ["mcp_app/copy.js", "mcp_app/admin.js", "mcp_app/sure.js", "mcp_app/keys.js"]
        addresses = filter(None, (notices_script(), anything_script(), zone_script()))
        own += [format_html('<script src="{}"></script>', address) for address in addresses]
        # Media has no public attribute for its files.
        theirs: Any = super().media
        scripts = [
            each for each in theirs._js if self.prepopulated_fields or not str(each).endswith(FOR_SLUGS)
        ]
        return Media(css=theirs._css, js=scripts) + Media(css={"all": ["mcp_app/admin.css"]}, js=own)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return the list. Without a search or a filter, the skin does not offer to show all rows.

        Raises IncorrectLookupParameters for a filter with NUL, which PostgreSQL refuses.
        """
        if any("\x00" in value for _, values in request.GET.lists() for value in values):
            raise IncorrectLookupParameters
        changelist: Any = super().get_changelist_instance(request)
        if not (changelist.query or changelist.has_active_filters):
            changelist.full_result_count = changelist.result_count
        return changelist

    def url_name(self, view: str) -> str:
        """Return the URL name of the page ``view`` of this model."""
        return f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_{view}"

    def page_url(self, view: str, row: M | None = None) -> str:
        """Return the address of a page of this model."""
        return reverse(self.url_name(view), args=[quote(row.pk)] if row is not None else [])

    def object_context(self, request: HttpRequest, title: str, row: Model | None = None) -> dict[str, Any]:
        """Return the template context that every custom page needs.

        ``row`` is the object that the page shows.
        """
        return {
            **({} if row is None else {"original": _Titled(row, title)}),
            **self.admin_site.each_context(request),
            # If this were set without a row, Unfold would use the name of the list as the page's title.
            "opts": self.opts if row is not None else None,
            "list_opts": self.opts,
            "title": title,
            "media": self.media,
            "changelist_url": self.back_to_list(request),
            # The address of the list without any filters.
            "list_url": self.page_url("changelist"),
        }

    def back_to_list(self, request: HttpRequest) -> str:
        """Return the address of the list with the user's current filters."""
        return self.with_filters(request, self.page_url("changelist"))

    def with_filters(self, request: HttpRequest, url: str) -> str:
        """Return ``url`` with the filters of the list from which the user came."""
        context: Any = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        return add_preserved_filters(context, url)

    def object_to_view(self, request: HttpRequest, object_id: str) -> M | None:
        """Return the row, or None if it does not exist.

        Raises PermissionDenied if the user may not view the row.
        """
        row = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        return row

    def may_open(self, request: HttpRequest, model: type[Model]) -> bool:
        """Return True if the user may view the pages of another model.

        Used to avoid links that would be denied.
        """
        return bool(self.admin_site.get_model_admin(model).has_view_permission(request))

    def not_there(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Redirect to the list and show a message that the row does not exist."""
        text = f"There is no {self.opts.verbose_name} {marked(unquote(object_id))[:80]}."
        self.message_user(request, text, messages.WARNING)
        return HttpResponseRedirect(self.page_url("changelist"))

    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: Any, object_id: str
    ) -> HttpResponse:
        """Mark hidden characters in the address. Django's own message would repeat them unmarked (S11)."""
        return self.not_there(request, object_id)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Add ``form_context`` to the template context."""
        more = {**self.form_context(request, object_id), **(extra_context or {})}
        return super().change_view(request, object_id, form_url, more)

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Return additional template context for a row's form. Subclasses override this."""
        return {}

    def is_on_own_pages(self, request: HttpRequest) -> bool:
        """Return True if the request is for a page of this model.

        Returns False if a page of another model asks, for example because it deletes rows of this model.
        """
        match = request.resolver_match
        return match is not None and f"_{self.opts.model_name}_" in (match.url_name or "")

    def title_of(self, row: M) -> str:
        """Return the title of a row's page."""
        return marked(row)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Mark hidden characters of the row's name in the page's headings (S11)."""
        if context.get("original") is not None:
            context["subtitle"] = title = self.title_of(context["original"])
            context["original"] = _Titled(context["original"], title)
        return super().render_change_form(request, context, *args, **kwargs)

    def action_checkbox(self, obj: M) -> SafeString:
        """Mark hidden characters of the row's name in the label of its checkbox (S11)."""
        labelled: Any = _Labelled(obj)
        return super().action_checkbox(labelled)

    # Unfold stores the column's heading as an attribute of the function.
    vars(action_checkbox).update(vars(SkinAdmin.action_checkbox))

    def done_to_each(
        self, request: HttpRequest, rows: Iterable[T], do: Callable[[T], object], refusal: type[Exception]
    ) -> int:
        """Call ``do`` for each row and return the number of rows for which it succeeded.

        If ``do`` raises an exception of the class ``refusal``, its message is shown to the user.
        """
        done = 0
        for row in rows:
            try:
                do(row)
                done += 1
            except refusal as refused:
                text = f"Unchanged: {marked(row)}. {marked(refused)}"
                self.message_user(request, text, messages.WARNING)
        return done

    def get_urls(self) -> list[URLPattern]:
        base = f"{self.opts.app_label}_{self.opts.model_name}"
        buttons = [
            path(f"<path:object_id>/{view.button}/", self._posted(view), name=f"{base}_{view.button}")
            for _, view in getmembers_static(type(self), lambda member: hasattr(member, "button"))
        ]
        return buttons + super().get_urls()

    def _posted(self, view: Any) -> Callable[..., HttpResponse]:
        def handle(request: HttpRequest, object_id: str) -> HttpResponse:
            if request.method != "POST":
                return HttpResponseNotAllowed(["POST"])
            row = self.object_to_view(request, object_id)
            if row is None:
                return self.not_there(request, object_id)
            if view.permission and not getattr(self, f"has_{view.permission}_permission")(request):
                raise PermissionDenied
            return view(self, request, row) or HttpResponseRedirect(self._return_address(request, row))

        return self.admin_site.admin_view(handle)

    def _return_address(self, request: HttpRequest, row: M) -> str:
        if "from_page" in request.GET:
            return self.page_url("change", row)
        return self.back_to_list(request)


class ReadOnlyAdmin(ModelAdmin[M]):
    """Base class of read-only pages."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False


class RowPageAdmin(ReadOnlyAdmin[M]):
    """Base class of read-only pages that show a row on a custom page instead of a form."""

    def change_view(self, request: HttpRequest, object_id: str, *_: Any, **__: Any) -> HttpResponse:
        """Return the row's page, or redirect to the list if the row does not exist."""
        row = self.object_to_view(request, object_id)
        return self.not_there(request, object_id) if row is None else self.row_page(request, row)

    @abstractmethod
    def row_page(self, request: HttpRequest, row: M) -> HttpResponse:
        """Return the page that shows a row."""


def _head_once(tags: Any) -> None:
    """Make Unfold compute a list's headings once per page instead of once per row.

    The headings take a quarter of the time of a page with 50 rows. The lists of other apps are not affected.
    """
    work_out: Callable[[Any], Iterable[dict[str, Any]]] = tags.result_headers

    @wraps(work_out)
    def result_headers(listed: Any) -> Iterable[dict[str, Any]]:
        if not isinstance(listed.model_admin, ModelAdmin):
            return work_out(listed)
        known: list[dict[str, Any]] = vars(listed).get("headings") or list(work_out(listed))
        listed.headings = known
        return known

    tags.result_headers = result_headers


if HAS_UNFOLD:
    from unfold.templatetags import unfold_list

    # Other releases of Unfold may not have this function.
    if hasattr(unfold_list, "result_headers"):
        _head_once(unfold_list)
