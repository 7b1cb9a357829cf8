"""Users of an identity provider: mapping to local users, scopes and groups."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission

from mcp_app.auth.api_keys import principal_of
from mcp_app.auth.authentication import Authenticator
from mcp_app.auth.identity_provider.provider import find_principal
from mcp_app.models import AuditEvent, ExternalIdentity
from mcp_app.protocol.errors import Unauthorized
from mcp_app.protocol.scopes import in_order
from tests.servers.identity_provider import IdentityProvider

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def user_named(name: str, **more: Any) -> Any:
    return get_user_model().objects.create_user(name, password="a long enough password", **more)


@pytest.fixture(autouse=True)
def _external(external: Any) -> None:
    """Accept tokens of the provider."""


def test_new_subject_creates_user_without_password_or_permissions(provider: IdentityProvider) -> None:
    principal = find_principal(provider.token(email="root@example.com", is_superuser=True, is_staff=True))
    assert principal is not None
    user = get_user_model().objects.get()
    assert (user.username, user.email, user.is_staff, user.is_superuser) == ("grace", "", False, False)
    assert not user.has_usable_password()
    assert not user.get_all_permissions()
    assert (principal.user_id, principal.name) == (user.pk, "grace")
    event = AuditEvent.objects.get()
    assert (event.action, event.object_key, event.detail["subject"]) == (
        "identity.create",
        "grace",
        "person-1",
    )


def test_same_subject_maps_to_same_user_despite_changed_claims(provider: IdentityProvider) -> None:
    first = find_principal(provider.token())
    again = find_principal(provider.token(preferred_username="hopper", client_id="editor"))
    assert first is not None
    assert again is not None
    assert (first.key, first.name) == (again.key, again.name)
    assert get_user_model().objects.count() == 1


@pytest.mark.parametrize("told", ["ada", "ADA", "Ada", "\uff41da", " ada"])
def test_username_claim_never_links_a_local_user_by_default(provider: IdentityProvider, told: str) -> None:
    local = user_named("ada", email="ada@example.com", is_superuser=True)
    principal = find_principal(provider.token(preferred_username=told, email="ada@example.com"))
    assert principal is not None
    assert principal.user_id != local.pk
    assert principal.name.lower().startswith("ada-")
    assert not ExternalIdentity.objects.filter(user=local).exists()


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("Grace Hopper", "Grace-Hopper"),
        ("grace@example.com", "grace@example.com"),
        ("g" * 400, "g" * 150),
        ("../../etc\x00<script>", "..-..-etc-script"),
        ("Ωmega", "Ωmega"),
    ],
)
def test_username_claim_is_normalized(provider: IdentityProvider, told: str, name: str) -> None:
    principal = find_principal(provider.token(preferred_username=told))
    assert principal is not None
    assert principal.name == name


@pytest.mark.parametrize("told", [None, "", "***", 7, ["ada"]])
def test_unusable_username_claim_yields_generated_name(provider: IdentityProvider, told: Any) -> None:
    principal = find_principal(provider.token(preferred_username=told))
    assert principal is not None
    assert principal.name.startswith("user-")


def test_subjects_with_equal_names_become_distinct_users(provider: IdentityProvider) -> None:
    names = [find_principal(provider.token(sub=sub)) for sub in ("one", "two", "three")]
    assert len({found.user_id for found in names if found}) == 3
    assert len({found.name for found in names if found}) == 3


def test_username_is_read_from_configured_claim(external: Any, provider: IdentityProvider) -> None:
    external(OAUTH_USERNAME_CLAIM="profile.login")
    principal = find_principal(provider.token(profile={"login": "amazing"}))
    assert principal is not None
    assert principal.name == "amazing"


class TestLinking:
    """Local users linked by their name, where settings trust the provider to name them."""

    @pytest.fixture(autouse=True)
    def _linked(self, external: Any) -> None:
        external(OAUTH_LINK_USERS=True)

    def test_ordinary_user_is_linked_once(self, provider: IdentityProvider) -> None:
        local = user_named("grace")
        first = find_principal(provider.token())
        second = find_principal(provider.token(sub="person-2"))
        assert first is not None
        assert second is not None
        assert first.user_id == local.pk
        assert second.user_id != local.pk
        assert AuditEvent.objects.filter(action="identity.link").count() == 1

    @pytest.mark.parametrize("power", ["is_staff", "is_superuser"])
    def test_staff_user_is_never_linked(self, provider: IdentityProvider, power: str) -> None:
        local = user_named("grace", **{power: True})
        principal = find_principal(provider.token())
        assert principal is not None
        assert principal.user_id != local.pk

    def test_inactive_user_is_not_linked(self, provider: IdentityProvider) -> None:
        user_named("grace", is_active=False)
        assert find_principal(provider.token()) is None
        assert get_user_model().objects.count() == 1

    def test_link_is_case_sensitive(self, provider: IdentityProvider) -> None:
        local = user_named("Grace")
        principal = find_principal(provider.token())
        assert principal is not None
        assert principal.user_id != local.pk

    def test_only_local_users_are_accepted_if_user_creation_is_disabled(
        self, external: Any, provider: IdentityProvider
    ) -> None:
        external(OAUTH_CREATE_USERS=False)
        user_named("grace")
        assert find_principal(provider.token()) is not None
        assert find_principal(provider.token(sub="stranger", preferred_username="eve")) is None


def test_unknown_subject_is_denied_if_user_creation_is_disabled(
    external: Any, provider: IdentityProvider
) -> None:
    external(OAUTH_CREATE_USERS=False)
    user_named("grace")
    assert find_principal(provider.token()) is None
    assert get_user_model().objects.count() == 1


def test_deactivated_user_is_denied(provider: IdentityProvider) -> None:
    assert find_principal(provider.token()) is not None
    get_user_model().objects.update(is_active=False)
    assert find_principal(provider.token()) is None
    assert find_principal(provider.token(preferred_username="other")) is None
    assert get_user_model().objects.count() == 1


async def test_deactivation_broadcast_evicts_cached_principal(
    authenticator: Authenticator, provider: IdentityProvider
) -> None:
    header = b"Bearer " + provider.token().encode()
    principal = await authenticator.authenticate(header, local=False)
    await sync_to_async(get_user_model().objects.update)(is_active=False)
    authenticator.forget({"user": principal.user_id})
    with pytest.raises(Unauthorized):
        await authenticator.authenticate(header, local=False)


@pytest.mark.requirement("AUTH-19")
def test_client_credentials_token_maps_to_a_user(provider: IdentityProvider) -> None:
    principal = find_principal(
        provider.token(sub="nightly-job", client_id="nightly-job", preferred_username=None)
    )
    assert principal is not None
    assert principal.user_id is not None
    assert principal.name.startswith("user-")


@pytest.mark.requirement("AUTH-22")
def test_two_clients_of_one_user_are_distinct_principals(provider: IdentityProvider) -> None:
    first = find_principal(provider.token(client_id="editor"))
    second = find_principal(provider.token(client_id=None, azp="terminal"))
    assert first is not None
    assert second is not None
    assert first.user_id == second.user_id
    assert first.key != second.key


class TestScopes:
    """Scopes as an upper limit on the permissions of a user."""

    @pytest.fixture
    def grace(self, provider: IdentityProvider) -> Any:
        find_principal(provider.token())
        user = get_user_model().objects.get()
        user.user_permissions.set(Permission.objects.filter(codename__in=("view_tool", "view_user")))
        return user

    @pytest.mark.requirement("AUTH-50")
    def test_admin_permissions_require_admin_scope(self, provider: IdentityProvider, grace: Any) -> None:
        plain = find_principal(provider.token())
        admin = find_principal(provider.token(scope="mcp:admin"))
        assert plain is not None
        assert admin is not None
        assert "auth.view_user" in plain.permissions
        assert "mcp_app.view_tool" not in plain.permissions
        assert "mcp_app.view_tool" in admin.permissions
        assert "mcp_app.change_tool" not in admin.permissions
        later = principal_of(admin.key, grace.pk, None)
        assert "mcp_app.view_tool" not in later.permissions, "of a call without scopes nothing is known"
        assert later.scopes == frozenset()
        stored = principal_of(admin.key, grace.pk, None, in_order(admin.scopes or ()))
        assert stored.scopes == admin.scopes
        assert "mcp_app.view_tool" in stored.permissions
        assert "mcp_app.change_tool" not in stored.permissions

    @pytest.mark.parametrize(
        ("claims", "held"),
        [
            ({"scope": "mcp:tools openid"}, {"mcp", "mcp:tools"}),
            ({"scope": None, "scp": ["mcp:prompts"]}, {"mcp", "mcp:prompts"}),
            ({"scope": None, "scp": "mcp:prompts profile"}, {"mcp", "mcp:prompts"}),
            ({"scope": None, "roles": ["mcp:tools"]}, {"mcp", "mcp:tools"}),
            # Roles of a token with scopes belong to the user, not to the client.
            ({"scope": "mcp", "roles": ["mcp:admin"]}, {"mcp"}),
            ({"scope": "openid"}, set()),
            ({"scope": None}, set()),
            ({"scope": {"mcp": True}}, set()),
            ({"scope": ["mcp", 7]}, {"mcp"}),
        ],
    )
    def test_scope_claim_formats_are_parsed(
        self, provider: IdentityProvider, claims: dict[str, Any], held: set[str]
    ) -> None:
        principal = find_principal(provider.token(**claims))
        assert principal is not None
        assert principal.scopes == held

    @pytest.mark.parametrize(
        ("given", "scope", "held"),
        [
            ({"use": "mcp mcp:tools"}, "use", {"mcp", "mcp:tools"}),
            ({"api://mcp/use": "mcp:tools"}, "use", {"mcp", "mcp:tools"}),
            ({"api://mcp/use": "mcp:tools"}, "api://mcp/use", {"mcp", "mcp:tools"}),
            ({"use": "mcp:tools"}, "mcp:admin", set()),
            ({"*": "mcp"}, "openid", {"mcp"}),
            ({"*": "mcp", "use": "mcp:tools"}, "use", {"mcp", "mcp:tools"}),
        ],
    )
    def test_provider_scope_names_map_to_local_scopes(
        self, external: Any, provider: IdentityProvider, given: dict[str, str], scope: str, held: set[str]
    ) -> None:
        external(OAUTH_SCOPES=given)
        principal = find_principal(provider.token(scope=scope))
        assert principal is not None
        assert principal.scopes == held


class TestGroups:
    """Groups named by a token, mapped to local groups by settings."""

    @pytest.fixture(autouse=True)
    def _mapped(self, external: Any) -> None:
        external(OAUTH_GROUPS={"ops": "MCP operator", "data team": "analysts"})

    def held(self) -> set[str]:
        return set(get_user_model().objects.get().groups.values_list("name", flat=True))

    def test_user_has_mapped_groups_of_newest_token(self, provider: IdentityProvider) -> None:
        now = provider.claims()["iat"]
        Group.objects.create(name="unmapped").save()
        find_principal(provider.token(groups=["ops", "unmapped", "elsewhere"], iat=now - 50))
        assert self.held() == {"MCP operator"}
        get_user_model().objects.get().groups.add(Group.objects.get(name="unmapped"))
        find_principal(provider.token(groups=["data team"], iat=now - 40))
        assert self.held() == {"analysts", "unmapped"}
        find_principal(provider.token(groups=["ops"], iat=now - 45))
        assert self.held() == {"analysts", "unmapped"}, "an older token says nothing"
        find_principal(provider.token(iat=now - 30))
        assert self.held() == {"unmapped"}, "a token without groups names none"
        assert not Group.objects.filter(name="elsewhere").exists()
        changes = [event.detail for event in AuditEvent.objects.filter(action="identity.groups")]
        assert {"added": ["analysts"], "removed": ["MCP operator"]} in changes

    def test_permissions_of_mapped_group_apply_immediately(self, provider: IdentityProvider) -> None:
        group = Group.objects.create(name="analysts")
        group.permissions.set(Permission.objects.filter(codename="view_user"))
        principal = find_principal(provider.token(groups=["data team"]))
        assert principal is not None
        assert "auth.view_user" in principal.permissions

    def test_group_removed_by_administrator_stays_removed_for_same_token(
        self, provider: IdentityProvider
    ) -> None:
        token = provider.token(groups=["ops"])
        find_principal(token)
        get_user_model().objects.get().groups.clear()
        find_principal(token)
        assert self.held() == set()

    @pytest.mark.parametrize("groups", ["ops", ["ops"], ["ops", 7, None, ["data team"]]])
    def test_groups_claim_accepts_string_or_list(self, provider: IdentityProvider, groups: Any) -> None:
        find_principal(provider.token(groups=groups))
        assert self.held() == {"MCP operator"}

    @pytest.mark.parametrize("groups", ["ops data team", {"ops": True}, None, 7])
    def test_malformed_groups_claim_yields_no_groups(self, provider: IdentityProvider, groups: Any) -> None:
        find_principal(provider.token(groups=groups))
        assert self.held() == set()

    def test_groups_are_read_from_nested_claim(self, external: Any, provider: IdentityProvider) -> None:
        external(OAUTH_GROUPS_CLAIM="realm_access.roles")
        find_principal(provider.token(realm_access={"roles": ["ops"]}))
        assert self.held() == {"MCP operator"}
