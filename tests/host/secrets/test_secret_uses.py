"""Who uses a secret, and what plugins want of one person, by manifests alone."""

from __future__ import annotations

from typing import Any

from paddock.core.ids import Tenant
from paddock.host.repairs.fact_collector import missing_shared_secrets
from paddock.host.secrets.usage import PluginSecretAccess, collect_shared_secrets, find_usages
from paddock.host.secrets.user_requirements import required_accounts, required_user_secrets
from paddock.manifest.model import Manifest
from paddock.manifest.read import read_stored
from paddock.manifest.syntax.document import ParsedDocument
from paddock.secrets.requirements import SecretScope
from paddock.secrets.rows import SecretInfo

HERE = Tenant("default")


def manifest(**fields: Any) -> Manifest:
    tools = [
        {"name": name, "description": name, "effects": ["read_only"], "input_schema": {"type": "object"}}
        for name in ("send", "read")
    ]
    values = {
        "paddock": 1,
        "name": "post",
        "version": "1.0.0",
        "description": "Posts",
        "runtime": {"command": ["./run.sh"]},
        "capabilities": ["host:secrets"],
        "tools": tools,
    }
    return read_stored(ParsedDocument("post", values | fields))


WANTS = manifest(
    secrets=["shared", "mine", "either", "spare"],
    secret_hosts={"either": ["api.example.com:443"]},
    operation_auth={
        "send": {"secrets": {"shared": "system", "mine": "user", "either": "system_or_user"}},
        "read": {"provider": "google", "mode": "user", "scopes": ["mail.read"]},
    },
    identities=[{"provider": "github", "scopes": ["repo"], "optional": True}],
)
ON = PluginSecretAccess(WANTS, enabled=True, granted=True)


def kept(name: str, owner: str = "") -> SecretInfo:
    return SecretInfo(HERE, owner, name, 1, "2030-01-31T08:00:00+00:00", "user:ann")


def test_a_secret_is_missing_for_those_who_may_have_it_and_cannot_do_without() -> None:
    found = {one.name: [use.plugin for use in one.missing] for one in collect_shared_secrets([], [ON])}

    assert found == {"shared": ["post"], "either": ["post"], "spare": []}
    assert all(not one.missing for one in collect_shared_secrets([kept("shared"), kept("either")], [ON]))


def test_who_is_not_enabled_or_was_not_granted_it_lacks_nothing() -> None:
    for one in (
        PluginSecretAccess(WANTS),
        PluginSecretAccess(WANTS, enabled=True),
        PluginSecretAccess(WANTS, granted=True),
    ):
        assert not any(secret.missing for secret in collect_shared_secrets([], [one]))
        assert not any(use.may for use in find_usages("shared", [one]))


def test_where_a_secret_may_go_and_whose_it_is_stands_with_each_use() -> None:
    (use,) = find_usages("either", [ON])
    assert (use.operations, use.hosts, use.scopes) == (
        ("send",),
        ("api.example.com:443",),
        (SecretScope.USER, SecretScope.SYSTEM),
    )
    (use,) = find_usages("mine", [ON])
    assert (use.personal, use.shared) == (True, False)


def test_configuration_that_refers_to_a_secret_needs_it() -> None:
    plain = PluginSecretAccess(manifest(), enabled=True, refers_to=frozenset({"smtp"}))

    (missing,) = collect_shared_secrets([], [plain])
    assert (missing.name, [use.configured for use in missing.missing]) == ("smtp", [True])
    (there,) = collect_shared_secrets([kept("smtp"), kept("smtp", "user:ann")], [plain])
    assert (there.missing, [use.plugin for use in there.needed_by]) == ((), ["post"])


def test_a_plugins_own_configuration_key_is_told_by_its_plugin() -> None:
    (own,) = collect_shared_secrets([kept("plugin/post/password")], [])
    assert own.configures == "post"


def test_what_a_whole_tenant_lacks_is_told_apart_from_what_people_bring_themselves() -> None:
    found = {one.name: one.personal_too for one in missing_shared_secrets(WANTS, {"spare"})}
    assert found == {"shared": False, "either": True}
    assert missing_shared_secrets(WANTS, {"shared", "either"}) == ()


def test_a_person_is_told_which_secrets_may_be_theirs_and_how_each_stands() -> None:
    found = {
        one.name: one for one in required_user_secrets(WANTS, {"mine": kept("mine", "user:ann")}, frozenset({"either"}))
    }

    assert {name: one.state for name, one in found.items()} == {"mine": "set", "either": "shared", "spare": "missing"}
    assert found["spare"].operations == ()
    assert found["either"].hosts == ("api.example.com:443",)


def test_accounts_are_told_for_the_whole_plugin_and_for_single_operations() -> None:
    whole, single = required_accounts(WANTS)
    assert (whole.provider, whole.mode, whole.optional, whole.operations) == ("github", "user", True, ())
    assert (single.provider, single.scopes, single.operations) == ("google", ("mail.read",), ("read",))


def test_an_account_that_the_plugin_names_is_not_told_again_for_its_operations() -> None:
    both = manifest(
        identities=[{"provider": "google"}], operation_auth={"read": {"provider": "google", "scopes": ["mail.read"]}}
    )
    assert [one.operations for one in required_accounts(both)] == [()]
