"""A form renderer without templates, for a form with many inputs on a page that is loaded often."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from django.forms.renderers import DjangoTemplates
from django.forms.utils import flatatt
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

INPUTS: Final = frozenset(f"django/forms/widgets/{name}.html" for name in ("text", "hidden", "number"))
SELECT: Final = "django/forms/widgets/select.html"


class FieldRenderer(DjangoTemplates):
    """A renderer of Django that writes inputs and selects without templates.

    Django renders a template for each input and each option.
    """

    def render(self, template_name: str, context: dict[str, Any], request: Any = None) -> str:
        """Return the HTML of a widget, or of a template of Django for other widgets."""
        if template_name in INPUTS:
            return _input(context["widget"])
        if template_name == SELECT:
            return _select(context["widget"])
        return super().render(template_name, context, request)


def _input(widget: dict[str, Any]) -> SafeString:
    value = widget["value"]
    given = "" if value is None else format_html(' value="{}"', value)
    own = _attributes(type=widget["type"]) + _attributes(name=widget["name"])
    return format_html("<input{}{}{}>", own, given, _attributes(**widget["attrs"]))


def _select(widget: dict[str, Any]) -> SafeString:
    options = format_html_join(
        "",
        "{}",
        (
            (_option(option["value"], option["label"], option["selected"]),)
            for _, options, _ in widget["optgroups"]
            for option in options
        ),
    )
    own = _attributes(name=widget["name"]) + _attributes(**widget["attrs"])
    return format_html("<select{}>{}</select>", own, options)


# Neither attributes nor options contain what a user has entered, so the same few of them are cached.
@lru_cache(maxsize=256)
def _attributes(**attributes: Any) -> SafeString:
    return flatatt(attributes)


@lru_cache(maxsize=256)
def _option(value: str, label: str, is_selected: bool) -> SafeString:
    return format_html("<option{}>{}</option>", flatatt({"value": value, "selected": is_selected}), label)
