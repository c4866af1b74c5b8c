"""Plugins and what they ask for, as the rules see them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.policy.rulebook import policy_of

from paddock.core.ids import PluginName
from paddock.manifest.capability import parse_capability
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableForm, CallableSpec, Dialect, Manifest, PluginKind, RemoteRuntime
from paddock.policy.decision import Allow
from paddock.policy.principal import plugin_principal
from paddock.policy.request import build_use_request
from paddock.policy.target import callable_target, capability_target

SENDING = CallableSpec(
    "Gmail.SendEmail", CallableForm.WHOLE, effects=(Effect.EXTERNAL_SEND,), policy_tags=("pii_access",)
)
MAIL = Manifest(
    PluginName("Gmail.SendEmail"),
    "1.0.0",
    Dialect.KERNEL,
    kind=PluginKind.OPERATOR,
    policy_tags=("external_send",),
    callables=(SENDING,),
)


@pytest.mark.req("K-15", "by tags")
def test_a_callable_carries_its_plugins_tags_and_its_own_and_what_is_known_of_its_signer() -> None:
    target = callable_target(MAIL, SENDING, tier="verified", signature="verified")

    assert target.name == "Gmail.SendEmail"
    assert target.traits.tags == {"external_send", "pii_access"}
    assert (target.traits.kind, target.traits.tier, target.effects) == ("operator", "verified", {"external_send"})


def test_a_callable_is_named_after_its_plugin() -> None:
    target = callable_target(MAIL, CallableSpec("drafts", CallableForm.TOOL), tier="personal", signature="unsigned")

    assert target.name == "Gmail.SendEmail.drafts"
    assert target.effects == {"read_only"}  # its cage leaves it nothing to change


@pytest.mark.parametrize(
    ("capability", "family", "effects"),
    [
        ("storage:write", "tables", {"db_write"}),
        ("host:storage", "storage", {"db_write"}),
        ("host:vault:write", "vault", {"memory_write"}),
        ("host:memory:full", "memory", {"memory_write"}),
        ("host:http", "http", {"external_call"}),
        ("host:cache", "cache", set()),
        ("net:*", "net", set()),
        ("write:fs:/tmp", "fs", set()),
        ("exec:sh:/tmp", "exec", set()),
    ],
)
def test_what_a_service_changes_is_known_from_its_family(capability: str, family: str, effects: set[str]) -> None:
    target = capability_target(parse_capability(capability), writes=True)

    assert (target.name, target.family, target.effects) == (capability, family, effects)
    assert capability_target(parse_capability(capability), writes=False).effects == frozenset()


def test_a_server_elsewhere_is_never_taken_for_a_signed_package() -> None:
    elsewhere = replace(MAIL, runtime=RemoteRuntime("https://mcp.example"))

    target = callable_target(elsewhere, SENDING, tier="verified", signature="verified")

    assert target.traits.signature == "remote"


def test_every_plugin_may_write_to_the_log() -> None:
    plugin = plugin_principal(MAIL, "default", tier="personal", signature="unsigned")
    request = build_use_request(plugin, capability_target(None, writes=False), method="log.write", granted=True)

    assert isinstance(policy_of(shipped=True).decide(request), Allow)
