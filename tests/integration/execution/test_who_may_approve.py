"""Calls that need approval: eligible approvers, for every kind of credential and every change meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.utils import timezone

from mcp_app import servers, tool
from mcp_app.auth.api_keys import (
    issue_api_key,
    principal_of_key,
    principal_of_user,
    revoke_api_key,
    secret_hash,
)
from mcp_app.auth.bench import bench_key
from mcp_app.auth.principal import EVERYTHING, Principal
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import EMPTY
from mcp_app.execution.background import approval
from mcp_app.execution.decisions import DecisionRefused, approve_call, objection_to
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.services import RetryRefused, cancel_call, retry_call
from mcp_app.execution.stored import pending_approvals, records
from mcp_app.execution.stored.acceptance import new_call
from mcp_app.execution.stored.approved_work import approval_of, covers
from mcp_app.execution.stored.call_record import CallRecord, record
from mcp_app.models import ApiKey, AuditEvent, Call, Session, Tool
from mcp_app.oauth import registration
from mcp_app.oauth.connections import disable, end, principal_key
from mcp_app.oauth.machines.registration import Machine, create_machine
from mcp_app.oauth.models import Client, Connection
from mcp_app.protocol.call_state import State
from mcp_app.protocol.messages.server import Server
from mcp_app.sessions.services import end_session_now
from tests.unit.execution.attempts import FIELDS

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

ARGUMENTS = {"text": "x"}
People = SimpleNamespace


def danger(text: str = "", more: str = "") -> str:
    """Do work that needs two users."""
    return text + more


def careful(text: str = "", more: str = "") -> str:
    """Do work that needs an operator."""
    return text + more


def other(text: str = "", more: str = "") -> str:
    """Do other work."""
    return text + more


@pytest.fixture(autouse=True)
def _offered() -> Iterator[None]:
    before = current_snapshot.replace(EMPTY)
    with registry.isolated():
        tool(needs_approval=True, four_eyes=True)(danger)
        tool(needs_approval=True)(careful)
        tool(needs_approval=True)(other)
        mirror()
        yield
    current_snapshot.replace(before)


@pytest.fixture
def people() -> People:
    """Create administrators, a requester and a superuser."""
    users = get_user_model().objects
    found = {name: users.create_user(name, is_staff=True) for name in ("asker", "boss", "editor", "third")}
    may = Permission.objects.filter(codename__in=["publish_entries", "add_machine_client", "add_client"])
    for name in ("boss", "editor"):
        found[name].user_permissions.set(may)
    return People(root=users.create_superuser("root"), **found)


def preset(**values: Any) -> Tool:
    base = Tool.objects.get(name=values.pop("base", "careful"))
    values = {"name": "preset", "preset_of": base, "fixed_arguments": {"more": "y"}} | values
    return services.save_tool_preset(actor=None, **values)


def asked(name: str, principal: Principal, *, session: str = "", inputs: Inputs | None = None) -> CallRecord:
    """Accept a call and return it."""
    entry = current_snapshot.refreshed_view(EVERYTHING).tool(name)
    assert entry is not None
    new = new_call(
        entry,
        ARGUMENTS,
        principal,
        session_id=session or f"session-{uuid4().hex}",
        request_id=1,
        session_fields=FIELDS,
        meta={},
        inputs=inputs,
    )
    if new.approval_minutes is None:
        return records.accept(new)[0]
    return pending_approvals.accept(new, 50)[0]


def decided(call: CallRecord, actor: Any) -> str:
    """Return ``approved``, or the reason for the refusal."""
    try:
        approve_call(call_id=call.id, actor=actor)
    except DecisionRefused as refused:
        return str(refused)
    return "approved"


def row(call: CallRecord) -> Call:
    return Call.objects.get(pk=call.id)


# Credentials with which a tool may be called.


def _key(user: Any, actor: Any, **columns: Any) -> Principal:
    key, _ = issue_api_key(user=user, name="key", actor=actor)
    ApiKey.objects.filter(pk=key.pk).update(**columns)
    return principal_of_key(ApiKey.objects.select_related("user").get(pk=key.pk))


def _foreign_key(user: Any) -> Principal:
    """Return a key without an audit event."""
    key = ApiKey.objects.create(user=user, name="old", prefix="mcp_old", secret_hash=secret_hash("old"))
    return principal_of_key(key)


def _connected(client: Client, user: Any) -> Principal:
    connection = Connection.objects.create(
        client=client,
        user=user,
        resource="https://here.example/mcp",
        scope="mcp:admin",
        ends_at=timezone.now() + timedelta(days=1),
    )
    made = principal_of_user(user)
    return replace(made, key=principal_key(connection), connection_id=connection.pk)


def _machine(actor: Any, *, is_old: bool = False) -> Principal:
    client, _ = create_machine(Machine("robot", "client_secret_basic", ("mcp:admin",)), actor=actor)
    if is_old:
        Client.objects.update(entered_by=None)
    return _connected(client, client.service_user)


def _entered_client(user: Any, actor: Any, *, is_old: bool = False) -> Principal:
    said = {"client_name": "Agent", "redirect_uris": ["https://agent.example/back"]}
    client, _ = registration.create_client(registration.metadata_of(said), actor=actor)
    if is_old:
        Client.objects.update(entered_by=None)
    return _connected(client, user)


def _unknown_machine() -> Principal:
    """Return a machine client without an audit event."""
    user = get_user_model().objects.create_user("machine-old")
    grant, by_hand = Client.GRANT_CLIENT_CREDENTIALS, Client.RegistrationSource.MANUAL
    client = Client.objects.create(
        name="old", authorization_grant_type=grant, registration_source=by_hand, service_user=user
    )
    return _connected(client, user)


def _registered_client(user: Any) -> Principal:
    client = Client.objects.create(name="Agent", registration_source=Client.RegistrationSource.DCR)
    return _connected(client, user)


def _bench(actor: Any, user: Any) -> Principal:
    return replace(principal_of_user(user), key=bench_key(actor.pk, user.pk), bench=True)


def _own_key_of(held: Principal) -> Principal:
    """Return a key that a user issued with another credential."""
    user = get_user_model().objects.get(pk=held.user_id or 0)
    return _key(user, user)


def _before(people: People, user: Any) -> Principal:
    own = _key(user, user)
    _key(user, people.root)
    return own


@dataclass(frozen=True, slots=True)
class Means:
    """A way to call a tool, and the users involved in it."""

    principal: Callable[[People], Principal]
    hands: tuple[str, ...]
    again: tuple[str, ...] = ()


MEANS = {
    "own key": Means(lambda p: _key(p.boss, p.boss), ("boss",)),
    "login": Means(lambda p: principal_of_user(p.boss), ("boss",)),
    "key issued by a superuser": Means(lambda p: _key(p.asker, p.root), ("asker", "root")),
    "key issued before issuers were stored": Means(
        lambda p: _key(p.asker, p.root, issued_by=None), ("asker", "root")
    ),
    "key of an unknown issuer": Means(lambda p: _foreign_key(p.asker), ("asker", "root")),
    "key issued by a command": Means(lambda p: _key(p.asker, None), ("asker",)),
    "machine": Means(lambda p: _machine(p.boss), ("boss",)),
    "machine entered before issuers were stored": Means(lambda p: _machine(p.boss, is_old=True), ("boss",)),
    "machine entered by a command": Means(lambda _: _machine(None), ()),
    "machine of an unknown administrator": Means(lambda _: _unknown_machine(), ("boss", "editor", "root")),
    "manual client": Means(lambda p: _entered_client(p.asker, p.boss), ("asker", "boss")),
    "client entered before issuers were stored": Means(
        lambda p: _entered_client(p.asker, p.boss, is_old=True), ("asker", "boss")
    ),
    "self-registered client": Means(lambda p: _registered_client(p.asker), ("asker",)),
    "key issued with a superuser-issued key": Means(
        lambda p: _own_key_of(_key(p.asker, p.root)), ("asker", "root")
    ),
    "key issued two steps after a superuser": Means(
        lambda p: _own_key_of(_own_key_of(_key(p.asker, p.root))), ("asker", "root")
    ),
    "key issued by a machine": Means(lambda p: _own_key_of(_machine(p.boss)), ("boss",)),
    "key issued through a manual client": Means(
        lambda p: _own_key_of(_entered_client(p.asker, p.boss)), ("asker", "boss")
    ),
    "key issued before a superuser issued one": Means(lambda p: _before(p, p.asker), ("asker",)),
    "bench": Means(lambda p: _bench(p.boss, p.boss), ("boss",)),
    "bench as another user": Means(lambda p: _bench(p.boss, p.asker), ("boss", "asker")),
    "retried": Means(lambda p: _key(p.asker, p.root), ("asker", "root", "boss"), again=("boss",)),
    "machine call retried twice": Means(
        lambda p: _machine(p.boss), ("boss", "editor", "root"), again=("editor", "root")
    ),
}


@pytest.mark.parametrize("means", MEANS.values(), ids=MEANS)
def test_four_eyes_excludes_every_user_involved_in_the_call(means: Means, people: People) -> None:
    call = asked("danger", means.principal(people))
    for name in means.again:
        cancel_call(call_id=call.id, actor=getattr(people, name))
        again = retry_call(call_id=call.id, actor=getattr(people, name))
        call = record(Call.objects.get(pk=again))
    for name, user in vars(people).items():
        # Lists of eligible approvers use the same rules as the decision.
        assert (objection_to(row(call), user) != "") == (name in means.hands), name
    for name in means.hands:
        assert decided(call, getattr(people, name)).endswith("another user has to approve it."), name
    free = next(user for name, user in vars(people).items() if name not in means.hands)
    assert decided(call, free) == "approved"


@pytest.mark.parametrize("part", ["retried", "changed its tool"])
def test_four_eyes_excludes_the_creator_of_an_involved_credential(part: str, people: People) -> None:
    """A machine may retry calls and change tools over the API on behalf of the user who created it."""
    machine = get_user_model().objects.get(pk=_machine(people.boss).user_id or 0)
    preset(base="danger")
    call = asked("preset", _key(people.asker, people.asker))
    if part == "retried":
        cancel_call(call_id=call.id, actor=people.third)
        call = record(Call.objects.get(pk=retry_call(call_id=call.id, actor=machine)))
    else:
        machine.user_permissions.add(Permission.objects.get(codename="publish_entries"))
        _changed(get_user_model().objects.get(pk=machine.pk), title="Harmless")
    assert "made a credential of a user" in decided(call, people.boss)
    assert decided(call, people.editor) == "approved"


# Changes while a call of ``preset`` is pending, by ``actor``.


def _changed(actor: Any, **values: Any) -> None:
    entry = Tool.objects.get(name="preset")
    kept = {name: getattr(entry, name) for name in ("name", "preset_of", "fixed_arguments")}
    services.save_tool_preset(actor=actor, entry=entry, **(kept | values))


def _pointed_elsewhere(actor: Any, base: str) -> None:
    _changed(actor, preset_of=Tool.objects.get(name=base))


def _pointed_away_and_back(actor: Any) -> None:
    _pointed_elsewhere(actor, "other")
    _pointed_elsewhere(actor, "careful")


def _made_anew(actor: Any) -> None:
    entry = Tool.objects.get(name="preset")
    services.delete_entry(entry=entry, actor=actor)
    services.save_tool_preset(
        actor=actor, name="preset", preset_of=entry.preset_of, fixed_arguments=entry.fixed_arguments
    )


def _renamed(actor: Any) -> None:
    _changed(actor, name="renamed")
    services.save_tool_preset(
        actor=actor, name="preset", preset_of=Tool.objects.get(name="other"), fixed_arguments={"more": "y"}
    )


def _new_code(_: Any) -> None:
    def careful(text: str = "", more: str = "", force: bool = True) -> str:
        """Does something new."""
        return ""

    registry.tools.pop("careful")
    tool(needs_approval=True)(careful)
    mirror()


def _base(actor: Any, **values: Any) -> None:
    services.update_entry(entry=Tool.objects.get(name="careful"), actor=actor, **values)


ANOTHER_WORK: dict[str, Callable[[Any], None]] = {
    "pointed at another tool": partial(_pointed_elsewhere, base="other"),
    "pointed at a tool under four eyes": partial(_pointed_elsewhere, base="danger"),
    "other fixed arguments": partial(_changed, fixed_arguments={"more": "z"}),
    "deleted and recreated": _made_anew,
    "renamed and replaced": _renamed,
    "new code": _new_code,
}
SAME_WORK: dict[str, Callable[[Any], None]] = {
    "four eyes set": partial(_changed, four_eyes=True),
    "four eyes set on the base tool": partial(_base, four_eyes=True),
}
WORDS: dict[str, Callable[[Any], None]] = {
    "another title": partial(_changed, title="Harmless"),
    "another title of the base tool": partial(_base, title="Harmless"),
    "pointed elsewhere and back": _pointed_away_and_back,
}


def test_deletion_of_the_tool_refuses_a_pending_call(people: People) -> None:
    preset()
    call = asked("preset", _key(people.asker, people.asker))
    services.delete_entry(entry=Tool.objects.get(name="preset"), actor=people.editor)
    assert approval.sweep() == 1
    assert "preset was deleted after this call was asked for" in row(call).answer


@pytest.mark.parametrize("change", ANOTHER_WORK.values(), ids=ANOTHER_WORK)
@pytest.mark.parametrize("found", ["by the decision", "by the sweep"])
def test_change_of_the_work_refuses_a_pending_call(
    found: str, change: Callable[[Any], None], people: People
) -> None:
    preset()
    call = asked("preset", _key(people.asker, people.asker))
    change(people.editor)
    if found == "by the sweep":
        assert approval.sweep() == 1
    assert "preset was changed after this call was asked for" in decided(call, people.third)
    stored = row(call)
    assert (stored.state, stored.decision, stored.decided_by) == (State.FAILED, "refused", None)
    assert "was changed after" in stored.answer
    audited = AuditEvent.objects.get(action="call.refuse", object_key=str(call.id))
    assert "was changed after" in audited.detail["reason"]
    assert approval.sweep() == 0


@pytest.mark.parametrize("change", ANOTHER_WORK.values(), ids=ANOTHER_WORK)
def test_change_of_the_work_voids_an_approval(change: Callable[[Any], None], people: People) -> None:
    """A worker checks the approval before the start, and a web process before each further round."""
    preset()
    principal = _key(people.asker, people.asker)
    call = asked("preset", principal)
    assert decided(call, people.third) == "approved"
    approved = approval_of(record(row(call)))
    carried = Inputs(approved=approved)
    before = current_snapshot.refreshed_view(EVERYTHING).tool("preset")
    assert before is not None
    assert covers(approved, before, call.arguments)
    assert not covers(approved, before, {**call.arguments, "text": "z"})
    assert asked("preset", principal, inputs=carried).approved
    change(people.editor)
    after = current_snapshot.refreshed_view(EVERYTHING).tool("preset")
    assert after is not None
    assert not covers(approved, after, call.arguments)
    assert asked("preset", principal, inputs=carried).waits_for_approval


@pytest.mark.parametrize("change", SAME_WORK.values(), ids=SAME_WORK)
def test_stricter_of_two_four_eyes_settings_applies(change: Callable[[Any], None], people: People) -> None:
    preset()
    principal = _key(people.asker, people.asker)
    earlier = asked("preset", principal)
    assert decided(earlier, people.asker) == "approved"
    call = asked("preset", principal)
    change(people.editor)
    assert decided(call, people.asker).startswith("You asked for this call yourself")
    assert decided(call, people.editor).startswith("You changed preset while this call waited")
    assert decided(call, people.third) == "approved"
    assert row(call).four_eyes
    # An approval from before four eyes was set no longer applies; a later one does.
    entry = current_snapshot.refreshed_view(EVERYTHING).tool("preset")
    assert entry is not None
    weak, strong = approval_of(record(row(earlier))), approval_of(record(row(call)))
    assert (covers(weak, entry, call.arguments), covers(strong, entry, call.arguments)) == (False, True)
    assert asked("preset", principal, inputs=Inputs(approved=weak)).waits_for_approval
    assert asked("preset", principal, inputs=Inputs(approved=strong)).approved


def test_removed_four_eyes_still_applies_to_pending_calls(people: People) -> None:
    preset(four_eyes=True)
    call = asked("preset", _key(people.asker, people.asker))
    _changed(people.editor, four_eyes=False, needs_approval=False)
    assert decided(call, people.asker).startswith("You asked for this call yourself")
    assert decided(call, people.editor).startswith("You changed preset")
    assert decided(call, people.third) == "approved"


@pytest.mark.parametrize("change", WORDS.values(), ids=WORDS)
def test_editor_of_a_four_eyes_tool_cannot_approve_pending_calls(
    change: Callable[[Any], None], people: People
) -> None:
    preset(four_eyes=True)
    call = asked("preset", _key(people.asker, people.asker))
    change(people.editor)
    assert approval.sweep() == 0
    assert decided(call, people.editor).startswith("You changed preset while this call waited")
    assert decided(call, people.third) == "approved"
    later = asked("preset", _key(people.asker, people.asker))
    assert decided(later, people.editor) == "approved"


def test_call_without_a_work_hash_cannot_be_approved(people: People) -> None:
    """Stored by an earlier version, or by its processes during an upgrade."""
    call = asked("careful", _key(people.asker, people.asker))
    Call.objects.filter(pk=call.id).update(work="", catalogue_revision=None)
    assert approval.sweep() == 1
    assert row(call).decision == "refused"


# Ways in which the credential of a pending call ends: noticed immediately, or by the sweep and the decision.


def _sessions(principal: Principal) -> Session:
    now = timezone.now()
    return Session.objects.create(
        id=uuid4().hex,
        principal=principal.key,
        protocol_version="2025-11-25",
        created_at=now,
        last_seen_at=now,
    )


def _of_key(call: CallRecord) -> ApiKey:
    return ApiKey.objects.get(pk=call.api_key_id)


def _revoked_in_a_shell(call: CallRecord) -> None:
    key = _of_key(call)
    key.revoked_at = timezone.now()
    key.save()


def _deactivated(user: Any) -> None:
    user.is_active = False
    user.save()


def _connection(call: CallRecord) -> Connection:
    return Connection.objects.select_related("user", "client").get(pk=call.connection_id)


Ending = Callable[[CallRecord, People], object]
AT_ONCE: dict[str, tuple[str, Ending, str]] = {
    "key revoked": ("own key", lambda c, _: revoke_api_key(key=_of_key(c)), "API key"),
    "key revoked in a shell": ("own key", lambda c, _: _revoked_in_a_shell(c), "API key"),
    "key deleted": ("own key", lambda c, _: _of_key(c).delete(), "API key"),
    "user deactivated": ("own key", lambda _, p: _deactivated(p.boss), "account"),
    "user deleted": ("own key", lambda _, p: p.boss.delete(), "deleted"),
    "connection ended": (
        "self-registered client", lambda c, _: end(_connection(c), "x"), "OAuth connection"
    ),
    "client disabled": ("machine", lambda c, p: disable(_connection(c).client, actor=p.root), "OAuth"),
    "machine's user deactivated": ("machine", lambda c, _: _deactivated(_connection(c).user), "account"),
    "bench user deactivated": (
        "bench as another user", lambda _, p: _deactivated(p.boss), "account"
    ),
    "user tried on the bench deactivated": (
        "bench as another user", lambda _, p: _deactivated(p.asker), "account"
    ),
}  # fmt: skip
LATER: dict[str, tuple[str, Ending, str]] = {
    "key revoked by SQL": (
        "own key", lambda *_: ApiKey.objects.update(revoked_at=timezone.now()), "API key"
    ),
    "key expired": (
        "own key", lambda *_: ApiKey.objects.update(expires_at=timezone.now() - timedelta(1)), "expired"
    ),
    "user deactivated by a statement": (
        "own key", lambda _, p: type(p.boss).objects.filter(pk=p.boss.pk).update(is_active=False), "account"
    ),
    "connection ended by a statement": (
        "machine", lambda *_: Connection.objects.update(revoked_at=timezone.now()), "OAuth connection"
    ),
    "client switched off by a statement": (
        "machine", lambda *_: Client.objects.update(disabled_at=timezone.now()), "OAuth connection"
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", AT_ONCE)
def test_end_of_the_credential_refuses_a_pending_call_at_once(how: str, people: People) -> None:
    means, ending, says = AT_ONCE[how]
    call = asked("careful", MEANS[means].principal(people))
    unrelated = asked("careful", _key(people.third, people.third))
    ending(call, people)
    stored = row(call)
    assert (stored.state, stored.decision) == (State.FAILED, "refused")
    assert says in stored.decision_reason
    assert stored.decision_reason in stored.answer
    assert stored.decision_reason in decided(call, people.root)
    assert AuditEvent.objects.filter(action="call.refuse", object_key=str(call.id)).count() == 1
    assert row(unrelated).state == State.APPROVAL_NEEDED


@pytest.mark.parametrize("how", LATER)
@pytest.mark.parametrize("found", ["by the decision", "by the sweep"])
def test_call_with_an_ended_credential_is_never_approved(found: str, how: str, people: People) -> None:
    means, ending, says = LATER[how]
    call = asked("careful", MEANS[means].principal(people))
    ending(call, people)
    if found == "by the sweep":
        assert approval.sweep() == 1
    assert says in decided(call, people.root)
    assert row(call).decision == "refused"


def test_ended_session_refuses_the_call_on_decision(people: People) -> None:
    principal = _key(people.boss, people.boss)
    session = _sessions(principal)
    call = asked("careful", principal, session=session.pk)
    assert end_session_now(session_id=session.pk, actor=people.root)
    assert "session" in decided(call, people.root)
    assert row(call).state == State.FAILED


def test_revoking_a_key_reports_ended_sessions_and_refused_calls(people: People) -> None:
    principal = _key(people.boss, people.boss)
    sessions = [_sessions(principal) for _ in range(3)]
    other_session = _sessions(_key(people.boss, people.boss))
    call = asked("careful", principal, session=sessions[0].pk)
    work = revoke_api_key(key=_of_key(call), actor=people.root)
    assert str(work) == "Ended 3 sessions, refused 1 waiting call."
    assert not Session.objects.filter(pk__in=[each.pk for each in sessions], ended_at=None).exists()
    assert Session.objects.get(pk=other_session.pk).ended_at is None
    assert AuditEvent.objects.get(action="call.refuse").actor == people.root
    assert str(revoke_api_key(key=_of_key(call), actor=people.root)) == ""


def test_saving_an_active_user_refuses_no_call(people: People) -> None:
    call = asked("careful", _key(people.boss, people.boss))
    people.boss.save(update_fields=["last_login"])
    people.boss.first_name = "Bo"
    people.boss.save()
    assert row(call).state == State.APPROVAL_NEEDED


def test_call_is_retried_at_the_server_that_it_was_sent_to(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    further = {"/mcp/toy": Server("toy", "1", path="/mcp/toy")}
    monkeypatch.setattr(servers, "_providers", [lambda: further])
    call = asked("careful", _key(people.boss, people.boss))
    Call.objects.filter(pk=call.id).update(session_fields={**FIELDS, "path": "/mcp/toy"})
    cancel_call(call_id=call.id, actor=people.root)
    again = Call.objects.get(pk=retry_call(call_id=call.id, actor=people.root))
    assert again.session_fields["path"] == "/mcp/toy"
    cancel_call(call_id=again.pk, actor=people.root)
    further.clear()
    with pytest.raises(RetryRefused):
        retry_call(call_id=again.pk, actor=people.root)


def test_call_of_an_ended_credential_is_not_retried(people: People) -> None:
    call = asked("careful", _key(people.boss, people.boss))
    revoke_api_key(key=_of_key(call))
    with pytest.raises(RetryRefused, match="API key"):
        retry_call(call_id=call.id, actor=people.root)
