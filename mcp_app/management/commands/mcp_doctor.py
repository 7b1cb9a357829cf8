"""``manage.py mcp_doctor``: examine this installation and print each fault with its remedy."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import asdict
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_app.doctor import Finding, Installation, Level, examine

ORDER = (Level.OK, Level.SKIPPED, Level.WARNING, Level.ERROR)


class Command(BaseCommand):
    """Print the findings of all checks, errors last. The exit status is 1 if there is an error."""

    help = "Check settings, database, Redis, workers, keys and the public address, with a remedy per fault."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", default="", help="the address as clients reach it (from PUBLIC_URL)")
        parser.add_argument("--key", default="", help="an API key; safer in the environment as MCP_API_KEY")
        parser.add_argument("--json", action="store_true", help="print JSON: a list of objects")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            key = options["key"] or os.environ.get("MCP_API_KEY", "")
            findings = examine(Installation.configured(options["url"], key))
        except (ValueError, ImproperlyConfigured) as wrong:
            raise CommandError(str(wrong)) from None
        if options["json"]:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2))
        else:
            self._write(findings)
        if any(finding.level == Level.ERROR for finding in findings):
            sys.exit(1)

    def _write(self, findings: list[Finding]) -> None:
        """Write one line per finding, in color on a terminal."""
        styles = {
            Level.OK: self.style.SUCCESS,
            Level.WARNING: self.style.WARNING,
            Level.ERROR: self.style.ERROR,
            Level.SKIPPED: self.style.NOTICE,
        }
        width = max(len(finding.check) for finding in findings)
        for finding in sorted(findings, key=lambda finding: ORDER.index(finding.level)):
            level = styles[finding.level](f"{finding.level:<7}")
            remedy = f" → {finding.remedy}" if finding.remedy else ""
            self.stdout.write(f"{level}  {finding.check:<{width}}  {finding.text}{remedy}")
        counted = Counter(finding.level for finding in findings)
        self.stdout.write(", ".join(f"{counted[level]} {level}" for level in ORDER))
