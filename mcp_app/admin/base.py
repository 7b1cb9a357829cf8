"""Owns the choice of skin: Unfold's classes when it is installed, else Django's own; knows no model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import getmembers_static
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from django.apps import apps
from django.contrib import messages
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

from mcp_app.admin.list_filters import ListedLookups
from mcp_app.auth.time_zone import zone_script
from mcp_app.interface.text import marked

HAS_UNFOLD = apps.is_installed("unfold")

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as SkinAdmin
    from django.forms import ModelForm, Select, Textarea

    FILE_CLASSES: list[str]
else:
    from django.forms import ModelForm as _ModelForm

    if HAS_UNFOLD:
        from unfold.admin import ModelAdmin as _SkinAdmin
        from unfold.widgets import FILE_CLASSES
        from unfold.widgets import UnfoldAdminSelectWidget as Select
        from unfold.widgets import UnfoldAdminTextareaWidget as Textarea
    else:
        from django.contrib.admin import ModelAdmin as _SkinAdmin
        from django.contrib.admin.widgets import AdminTextareaWidget as Textarea
        from django.forms import Select

        FILE_CLASSES = []

    class SkinAdmin(_SkinAdmin):
        """The skin's class, which the type checker sees as generic."""

        def __class_getitem__(cls, item: object) -> type:
            return cls

    class ModelForm(_ModelForm):
        """Django's class, which the type checker sees as generic."""

        def __class_getitem__(cls, item: object) -> type:
            return cls


__all__ = [
    "FILE_CLASSES",
    "HAS_UNFOLD",
    "ModelAdmin",
    "ModelForm",
    "ReadOnlyAdmin",
    "Select",
    "Textarea",
]

M = TypeVar("M", bound=Model)

FOR_SLUGS = ("/urlify.js", "/prepopulate.js", "/xregexp.js", "/xregexp.min.js")


def notices_script() -> str:
    """The script that notifies in the browser, with where it listens; "" where the console is not served."""
    try:
        return f"{static('mcp_app/notices.js')}#{reverse('mcp_console:sessions')}ws"
    except NoReverseMatch:
        return ""


def anything_script() -> str:
    """The script of the search for anything, with the address it asks; "" where that is not served."""
    try:
        return f"{static('mcp_app/anything.js')}#{reverse('mcp_find')}"
    except NoReverseMatch:
        return ""


class _Labelled:
    """A row whose name is safe to look at; everything else is the row's."""

    def __init__(self, row: Model) -> None:
        self._row = row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    def __str__(self) -> str:
        return marked(self._row)


class _Titled(_Labelled):
    """A row that stands in headings by the title of the page that is about it."""

    def __init__(self, row: Model, title: str) -> None:
        super().__init__(row)
        self._title = title

    def __str__(self) -> str:
        return self._title


V = TypeVar("V", bound=Callable[..., HttpResponse | None])
T = TypeVar("T")


def object_button(name: str, permission: str = "") -> Callable[[V], V]:
    """Make a method the view of a button: POST of one row, at an address that ends with ``name``.

    Only for whom ``has_<permission>_permission`` allows it; without one, the view decides by the row.
    """

    def mark(view: V) -> V:
        vars(view).update(button=name, permission=permission)
        return view

    return mark


def revoking(address: str, verb: str, what: str, then: str) -> dict[str, str]:
    """The button of ``revocable_form.html`` that ends what the page is about, and its question."""
    label = f"{verb} this {what}"
    words = {"label": label, "question": f"{label}? {then}", "yes": f"{verb} the {what}", "no": "Keep it"}
    return {"address": address, **words}


class ModelAdmin(ListedLookups, SkinAdmin[M]):
    """The base of all our pages: local styles, closed lists, and buttons that post to one row."""

    list_per_page = 50
    show_full_result_count = False
    # Unfold indents forms and lists when asked; Django's own admin ignores these.
    list_filter_sheet = True
    compressed_fields = False
    # Unfold asks for it in every row; where it is missing, the template looks through all names of the page.
    list_sections: ClassVar[tuple[()]] = ()

    @property
    def media(self) -> Media:
        """The skin's files and ours; all local, and none that only a slug made of other fields would need."""
        own: list[Any] = ["mcp_app/copy.js", "mcp_app/admin.js", "mcp_app/sure.js", "mcp_app/keys.js"]
        addresses = filter(None, (notices_script(), anything_script(), zone_script()))
        own += [format_html('<script src="{}"></script>', address) for address in addresses]
        # The lists of a Media are private, and nothing else says what is in it.
        theirs: Any = super().media
        scripts = [
            each for each in theirs._js if self.prepopulated_fields or not str(each).endswith(FOR_SLUGS)
        ]
        return Media(css=theirs._css, js=scripts) + Media(css={"all": ["mcp_app/admin.css"]}, js=own)

    def url_name(self, view: str) -> str:
        """The name under which this model's page ``view`` is known to ``reverse``."""
        return f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_{view}"

    def page_url(self, view: str, row: M | None = None) -> str:
        """The address of one of this model's pages."""
        return reverse(self.url_name(view), args=[quote(row.pk)] if row is not None else [])

    def object_context(self, request: HttpRequest, title: str, row: Model | None = None) -> dict[str, Any]:
        """What every page of ours hands to the skin's base template; ``row`` is what it is about."""
        return {
            **({} if row is None else {"original": _Titled(row, title)}),
            **self.admin_site.each_context(request),
            # With these and without a row, Unfold heads a page by the name of the list.
            "opts": self.opts if row is not None else None,
            "list_opts": self.opts,
            "title": title,
            "media": self.media,
            "changelist_url": self.back_to_list(request),
            # All of it, whatever filters the user came with.
            "list_url": self.page_url("changelist"),
        }

    def back_to_list(self, request: HttpRequest) -> str:
        """The list's address with the filters the user came with."""
        return self.with_filters(request, self.page_url("changelist"))

    def with_filters(self, request: HttpRequest, url: str) -> str:
        """``url``, carrying the filters of the list the user is on or came from."""
        context: Any = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        return add_preserved_filters(context, url)

    def object_to_view(self, request: HttpRequest, object_id: str) -> M | None:
        """The row an address names, None if it is gone; raises PermissionDenied without view permission."""
        row = self.get_object(request, unquote(object_id))
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        return row

    def may_open(self, request: HttpRequest, model: type[Model]) -> bool:
        """Whether this person may open the pages of another model: no link leads to a refusal."""
        return bool(self.admin_site.get_model_admin(model).has_view_permission(request))

    def not_there(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Back to the list when a row that was asked for is gone."""
        text = f"There is no {self.opts.verbose_name} {marked(unquote(object_id))[:80]}."
        self.message_user(request, text, messages.WARNING)
        return HttpResponseRedirect(self.page_url("changelist"))

    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: Any, object_id: str
    ) -> HttpResponse:
        """Django's own pages say it as ours do: its words repeat the address with what hides in it (S11)."""
        return self.not_there(request, object_id)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The skin's form, with what this model's template wants to know besides."""
        more = {**self.form_context(request, object_id), **(extra_context or {})}
        return super().change_view(request, object_id, form_url, more)

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """What the template of one row's form is given besides the skin's."""
        return {}

    def is_on_own_pages(self, request: HttpRequest) -> bool:
        """Whether a request is for a page of this model; rows also go with others, on the others' pages."""
        match = request.resolver_match
        return match is not None and f"_{self.opts.model_name}_" in (match.url_name or "")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """The skin's form; the row's name stands in headings, where hidden characters must show too (S11)."""
        if context.get("original") is not None:
            context["subtitle"] = marked(context["original"])
            context["original"] = _Labelled(context["original"])
        return super().render_change_form(request, context, *args, **kwargs)

    def action_checkbox(self, obj: M) -> SafeString:
        """The skin's checkbox; its label has the row's name, where hidden characters must show too (S11)."""
        labelled: Any = _Labelled(obj)
        return super().action_checkbox(labelled)

    # A skin may keep the column's heading on the function.
    vars(action_checkbox).update(vars(SkinAdmin.action_checkbox))

    def done_to_each(
        self, request: HttpRequest, rows: Iterable[T], do: Callable[[T], object], refusal: type[Exception]
    ) -> int:
        """To how many of ``rows`` it was done; of each ``refusal`` its words are shown."""
        done = 0
        for row in rows:
            try:
                do(row)
                done += 1
            except refusal as refused:
                text = f"Left alone: {marked(row)}. {marked(refused)}"
                self.message_user(request, text, messages.WARNING)
        return done

    def get_urls(self) -> list[URLPattern]:
        """The skin's addresses, after those of this model's buttons."""
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
    """Rows that are looked at and never altered here."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Such rows are not added by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """Such rows are not changed."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """Such rows are not removed by hand."""
        return False


class RowPageAdmin(ReadOnlyAdmin[M]):
    """Rows that have a page of our own making instead of the skin's form."""

    def change_view(self, request: HttpRequest, object_id: str, *_: Any, **__: Any) -> HttpResponse:
        """The page of a row that is there."""
        row = self.object_to_view(request, object_id)
        return self.not_there(request, object_id) if row is None else self.row_page(request, row)

    @abstractmethod
    def row_page(self, request: HttpRequest, row: M) -> HttpResponse:
        """The page of one row."""


def _head_once(tags: Any) -> None:
    """Let Unfold work out the headings of a list of ours once: it asks for them again in each row.

    They are a quarter of the time of a page of 50 rows. Lists of others are left as they are.
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

    # A release of Unfold without that function is served as it is.
    if hasattr(unfold_list, "result_headers"):
        _head_once(unfold_list)
