"""Every page, action and route for each role, with only the needed permissions, and with all others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import connection, transaction

from tests.integration.roles.conftest import AskingOf
from tests.integration.roles.links import meant, refused
from tests.integration.roles.people import PEOPLE, Asking, Writes, every_permission, holding, stored
from tests.integration.roles.requests import Request, Requests
from tests.integration.roles.table import Clause, Way, ways
from tests.integration.roles.ways_there_are import served

pytestmark = pytest.mark.django_db
WAYS = tuple(way for way in ways() if way.method != "WS" and way.path not in served())
INDEX = next(way for way in WAYS if way.path == "/admin/")
SECTIONS = tuple(dict.fromkeys(way.section for way in WAYS if way.clauses))
# The login of staff, and the one of all users.
LOGINS = ("/admin/login/", "/accounts/login/")
# Django's lists and pages redirect with such messages if the user may see no row.
NOTHING = ("There is no ", "doesn’t exist")


class Trial:
    """Sends requests as a user, and records responses that differ from the table; all changes are rolled
    back.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._before = stored()
        self.faults: list[str] = []

    def go(self, way: Way, asking: Asking, *, with_key: bool = False) -> None:
        """Send one request and record its faults."""
        request = self._requests.of(way)
        answer, changed = self._sent(way.method, request, asking, with_key=with_key)
        expected = way.is_open_to(asking.person)
        done = changed if request.changes else _is_let_in(answer)
        if done != expected or (expected and answer.status_code >= 400):
            self._note(way, asking, answer, "was let in" if done else "was refused")
        if changed and not (expected and request.changes):
            self._note(way, asking, answer, "changed what is stored")
        if not expected and not request.is_form and _is_let_in(answer):
            self._note(way, asking, answer, "was not told that it is refused")
        if expected and way.method == "GET" and not way.path.startswith("/api/"):
            self._look_at_what_is_offered(answer, request, asking)

    def _sent(self, method: str, request: Request, asking: Asking, **how: Any) -> tuple[Any, bool]:
        client, writes = asking.client(**how), Writes()
        with transaction.atomic(), connection.execute_wrapper(writes):
            answer = request.by(asking.user).send(client, method)
            now = stored(writes.tables)
            changed = any(digest != self._before[table] for table, digest in now.items())
            transaction.set_rollback(True)
        return answer, changed

    def _look_at_what_is_offered(self, answer: Any, request: Request, asking: Asking) -> None:
        kind = answer.get("Content-Type", "")
        # Django's own forms redirect users with add or delete permission only to their list.
        parts = request.address.split("/")
        leads_back = parts[-2] in ("add", "delete")
        if leads_back and not any(
            way.is_open_to(asking.person) for way in meant("GET", "/".join([*parts[:4], ""]))
        ):
            return
        if answer.status_code == 200 and kind.startswith(("text/html", "application/json")):
            self.faults += refused(answer.content.decode(), request.address, asking.person)

    def _note(self, way: Way, asking: Asking, answer: Any, what: str) -> None:
        text = f"{asking.person.name}: {way}: {what} ({answer.status_code} {answer.get('Location', '')})"
        self.faults.append(text)

    def ended(self) -> None:
        """Assert that no fault was recorded."""
        assert not self.faults, "\n".join(self.faults)


def _is_let_in(answer: Any) -> bool:
    if answer.status_code >= 400 or answer.get("Location", "").startswith(LOGINS):
        return False
    said = [str(each) for each in get_messages(answer.wsgi_request)] if answer.status_code == 302 else []
    return not any(words in each for each in said for words in NOTHING)


# The auditor stands for all roles: the next test proves each gate by its permissions, with as few and with
# all others, and test_table.py which of them a role has. The superuser requests the same pages.
NOT_TRIED = {"operator", "administrator"}


@pytest.mark.parametrize("name", [name for name in PEOPLE if name not in NOT_TRIED])
def test_responses_match_the_table(name: str, asking: AskingOf, requests: Requests) -> None:
    somebody = asking(name)
    trial = Trial(requests)
    for way in WAYS:
        trial.go(way, somebody)
        if way.path.startswith("/api/") and way.path != "/api/docs/":
            trial.go(way, somebody, with_key=True)
    trial.ended()


def _enough(clauses: tuple[Clause, ...]) -> Iterator[frozenset[str]]:
    """Yield minimal sets of permissions."""
    chosen = [sorted(clause) for clause in clauses]
    for number in range(max(map(len, chosen))):
        yield frozenset(names[number % len(names)] for names in chosen)


def _too_few(clauses: tuple[Clause, ...], every: frozenset[str]) -> Iterator[frozenset[str]]:
    """Yield all permissions except those of one clause, and those that include them."""
    for clause in clauses:
        looked_at = {name.partition(".view_")[::2] for name in clause if ".view_" in name}
        more = {f"{app}.{verb}_{model}" for app, model in looked_at for verb in ("add", "change", "delete")}
        yield every - clause - more


@pytest.mark.parametrize("section", SECTIONS)
def test_only_the_named_permissions_are_needed(section: str, rows: Any, requests: Requests) -> None:
    found = [way for way in WAYS if way.section == section and way.clauses]
    enough = {way: [*_enough(way.clauses)] for way in found}
    every = every_permission()
    too_few = {way: [*_too_few(way.clauses, every)] for way in found}
    sets = {each for tried in (enough, too_few) for held in tried.values() for each in held}
    held = {permissions: holding(permissions) for permissions in sets}
    trial = Trial(requests)
    for way in found:
        for permissions in (*enough[way], *too_few[way]):
            trial.go(way, held[permissions])
    # Pages of users with minimal permissions offer no denied request.
    for permissions in {each for sufficient in enough.values() for each in sufficient}:
        trial.go(INDEX, held[permissions])
    trial.ended()


def test_changing_requests_require_the_csrf_token(asking: AskingOf, requests: Requests) -> None:
    root = asking("superuser")
    before = stored()
    for way in WAYS:
        if way.method != "GET" and way.level != "not served":
            answer = requests.of(way).by(root.user).send(root.client(strict=True), way.method)
            assert answer.status_code == 403, way
    assert stored() == before


@pytest.mark.parametrize("name", ["anonymous", "staff"])
def test_other_methods_change_nothing_and_show_nothing_to_denied_users(
    name: str, asking: AskingOf, requests: Requests
) -> None:
    somebody = asking(name)
    before = stored()
    for way in WAYS:
        taken = {other.method for other in WAYS if other.path == way.path}
        if way.method == "GET" and not way.path.startswith("/api/"):
            for method in {"HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - taken:
                request = Request(requests.of(way).address)
                answer = request.send(somebody.client(), method)
                # Django lists the allowed methods to any user, and nothing else.
                shown = _is_let_in(answer) and bool(answer.content)
                assert way.is_open_to(somebody.person) or not shown, (method, way)
    assert stored() == before
