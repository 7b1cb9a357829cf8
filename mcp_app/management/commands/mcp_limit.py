"""``manage.py mcp_limit``: add, list and remove limits on calls without the admin."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_app.catalogue.snapshots.limit_rules import of_tools
from mcp_app.interface.text import marked
from mcp_app.limits.notation import (
    amount_fields,
    amounts_text,
    exempt_text,
    what_fields,
    what_text,
    who_fields,
    who_text,
)
from mcp_app.limits.services import delete_rule, save_rule
from mcp_app.management.actors import actor_named
from mcp_app.models import LimitRule


class Command(BaseCommand):
    """Manage limits. Every process applies a change within seconds."""

    help = "Add, list and remove limits on calls of tools."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = actions.add_parser("add", help="add a limit")
        add.add_argument("name", metavar="NAME")
        add.add_argument(
            "--who", required=True, metavar="CALLERS",
            help="installation, group:NAME, member:GROUP (each one), user:NAME, key:ID, client:ID or "
            "address:NETWORK; user:* counts each user separately",
        )  # fmt: skip
        add.add_argument(
            "--what", default="everything", metavar="TOOLS",
            help="everything, toolset:SLUG, tag:NAME or tool:NAME (default: %(default)s)",
        )  # fmt: skip
        add.add_argument(
            "--except", dest="exempt", action="append", default=[], metavar="CALLER",
            help="user:NAME, group:NAME or key:ID that is not limited; may be repeated",
        )  # fmt: skip
        add.add_argument("--rate", metavar="N/PERIOD", help="calls per second, minute, hour or day")
        add.add_argument("--burst", type=int, metavar="N", help="calls at once (default: those of the rate)")
        add.add_argument("--concurrent", type=int, metavar="N", help="calls that run at the same time")
        add.add_argument("--budget", metavar="N/PERIOD", help="calls per hour, day or month, in UTC")
        add.add_argument(
            "--unit", choices=LimitRule.Unit.values, default=LimitRule.Unit.CALLS,
            help="what the budget counts (default: %(default)s)",
        )  # fmt: skip
        add.add_argument("--observe", action="store_true", help="count, and refuse no call")
        actions.add_parser("list", help="print all limits")
        remove = actions.add_parser("remove", help="delete a limit")
        remove.add_argument("name", metavar="NAME")
        for each in (add, remove):
            each.add_argument("--actor", metavar="USERNAME", help="the user recorded in the audit trail")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['action']}")(options)
        except ValidationError as error:
            raise CommandError(marked(f"Refused. {' '.join(error.messages)}")) from error
        except ValueError as error:
            raise CommandError(marked(f"Refused. {error}.")) from error

    def _add(self, options: dict[str, Any]) -> None:
        values = {**who_fields(options["who"]), **what_fields(options["what"])}
        for column in ("rate", "budget"):
            if options[column] is not None:
                values |= amount_fields(column, options[column])
        mode = LimitRule.Mode.OBSERVE if options["observe"] else LimitRule.Mode.ENFORCE
        values |= {"burst": options["burst"], "concurrent": options["concurrent"]}
        values |= {"budget_unit": options["unit"], "mode": mode, "exempt": options["exempt"]}
        row = save_rule(actor=actor_named(options["actor"]), name=options["name"], **values)
        self.stdout.write(_line(row))

    def _list(self, options: dict[str, Any]) -> None:
        for row in LimitRule.objects.select_related("user", "group"):
            self.stdout.write(_line(row))
        for rule in of_tools():
            words = (rule.name, who_text(rule), what_text(rule), amounts_text(rule), "set on the tool")
            self.stdout.write(marked("  ".join(words)))

    def _remove(self, options: dict[str, Any]) -> None:
        row = LimitRule.objects.filter(name=options["name"]).first()
        if row is None:
            raise CommandError(f"There is no limit {options['name']!r}.")
        delete_rule(rule=row, actor=actor_named(options["actor"]))
        self.stdout.write(f"Removed {options['name']}.")


def _line(row: LimitRule) -> str:
    state = row.mode if row.enabled else "off"
    exempt = f" except {exempt_text(row)}" if row.exempt else ""
    return marked(f"{row.name}  {who_text(row)}{exempt}  {what_text(row)}  {amounts_text(row)}  {state}")
