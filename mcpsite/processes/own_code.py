"""Loading of code that may be edited while it is served. It needs permission, and errors are reported.

A process can be started before the next edit. It loads the libraries and the code of this project, and then
waits before the first module of the user's apps. After an edit, it needs only a fraction of a full start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, TracebackType

from django.apps import apps

from mcp_app.code_fault import CodeFault
from mcpsite.environment import PACKAGE, REMEDIES, Environment, WrongSettings, read
from mcpsite.supervised import permits

OURS = (str(PACKAGE), str(PACKAGE.parent / "mcp_app"))
# Django loads these files of each app early. A process started ahead has already loaded them.
LOADED_AHEAD = ("__init__.py", "apps.py", "models.py", "admin.py")


def own_folders(environment: Environment) -> list[str]:
    """Return the folders of the user's apps: MCP_APPS_PATH, and packages that are installed elsewhere."""
    folders = [environment.mcp_apps_path] if environment.mcp_apps_path else []
    for name in environment.mcp_apps:
        found = find_spec(name.partition(".")[0])
        places = found.submodule_search_locations if found else None
        folders += [
            str(place)
            for place in places or ()
            if not Path(place).is_relative_to(environment.mcp_apps_path or place + "/-")
        ]
    return list(dict.fromkeys(folders))


class Barrier(MetaPathFinder):
    """An import hook that waits at the first module of the user's apps, except packages and ``apps.py``."""

    def __init__(self, apps: Sequence[str], folders: Sequence[str]) -> None:
        self._apps = apps
        self._within = tuple(folders)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Wait for permission if the module belongs to the user. Always return None."""
        if self._within and self._is_own(name, path):
            self._within = ()
            permits.to_load()
        return None

    def _is_own(self, name: str, path: Sequence[str] | None) -> bool:
        if any(app == name or app.startswith(f"{name}.") for app in self._apps) or name.endswith(".apps"):
            return False
        places = self._within if path is None else [p for p in path if str(p).startswith(self._within)]
        # Django also looks for modules that do not exist.
        return bool(places) and PathFinder.find_spec(name, list(places)) is not None


def own_apps(environment: Environment) -> list[str]:
    """Return the apps to install, and add their folder to Python's path. Raise WrongSettings.

    If edits are watched, install the import hook as well.
    """
    folder = environment.mcp_apps_path
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    for name in environment.mcp_apps:
        if find_spec(name.partition(".")[0]) is None:
            remedy = f"Set it to {REMEDIES['MCP_APPS']}."
            raise WrongSettings(f"Wrong setting: MCP_APPS has {name!r}, which Python does not find. {remedy}")
    if permits.needed:
        # Two edits within a second may have the same length. Python would then use the first edit's byte
        # code.
        sys.dont_write_bytecode = True
        sys.meta_path.insert(0, Barrier(environment.mcp_apps, own_folders(environment)))
    return list(environment.mcp_apps)


def load_all(environment: Environment) -> None:
    """Load the code of web processes and workers, wait for permission to serve, and update the catalogue."""
    if not permits.needed:
        return
    sys.excepthook = _Report(environment)
    import mcpsite.asgi
    import mcpsite.urls  # noqa: F401
    from mcpsite.celery import app

    app.loader.import_default_modules()
    permits.to_serve()
    sys.excepthook = sys.__excepthook__
    from mcp_app.catalogue.changes.mirroring import mirror

    mirror()


class _Report:
    """An exception hook that stores a fatal error, for the supervisor and the processes that serve."""

    def __init__(self, environment: Environment) -> None:
        self._folders = own_folders(environment)
        self._path = environment.code_fault_file

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        fault = CodeFault.of(error, self._folders)
        if not fault.is_in(self._folders):
            fault = CodeFault.of(error, OURS)
        fault.write(self._path)
        sys.__excepthook__(kind, error, trace)


def explain_at_start(error: Exception) -> None:
    """End a command that failed because of an error in the user's apps, and show only lines of these apps.

    For ``up --reload``, wait for the next edit and start the command again.
    """
    folders = [] if apps.ready else own_folders(read())
    fault = CodeFault.of(error, folders)
    if not fault.is_in(folders):
        return
    shown = "\n".join([f"The code cannot be loaded. {fault}", "", *fault.lines])
    if sys.argv[1:2] != ["up"] or "--reload" not in sys.argv:
        sys.exit(shown)
    from mcpsite.processes.edits import Edits, changed_at

    # Read the time of the file before the message is printed, because the user may correct the error at once.
    edits, file = Edits(folders), Path(fault.file)
    before = changed_at(file)
    print(f"{shown}\n\nThe server starts once this is corrected.", file=sys.stderr)  # noqa: T201
    try:
        edits.wait(file, before)
    except KeyboardInterrupt:
        sys.exit(1)
    os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606 - the same command once more


def is_loaded_ahead(changed: Iterable[str]) -> bool:
    """Return True if a process started ahead may have loaded an earlier version of one of these files."""
    return any(
        path.startswith(OURS) or Path(path).name in LOADED_AHEAD for path in changed if path.endswith(".py")
    )
