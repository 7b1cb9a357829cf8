"""``manage.py mcp_doctor``: what is wrong with this installation, and what to do about it."""

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
    """Print what every check found, errors last; exit status 1 when there is one."""

    help = (
        "Look at settings, database, Redis, workers, keys and the public address; name each fault's remedy."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Where the server is, as whom to talk to it, for people or for programs."""
        parser.add_argument("--url", default="", help="the address as clients reach it (from PUBLIC_URL)")
        parser.add_argument("--key", default="", help="an API key; safer in the environment as MCP_API_KEY")
        parser.add_argument("--json", action="store_true", help="a list of objects")

    def handle(self, *args: Any, **options: Any) -> None:
        """Look and print; raises CommandError for an address or a key that cannot be used."""
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
        """One line each; Django's styles have colours on a terminal only."""
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
