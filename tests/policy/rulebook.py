"""Rules, people and things to call, made up in a line each."""

from __future__ import annotations

from typing import Any

from paddock.policy.engine import Policy
from paddock.policy.principal import PluginTraits, PolicyPrincipal
from paddock.policy.rules import RuleFile, checked_rules, shipped_rule_file
from paddock.policy.schema import build_vocabulary
from paddock.policy.target import CallableTarget

CALL = 'principal, action in Action::"anyCall", resource'
ANN = PolicyPrincipal("User", "user:ann", "default", frozenset({"member"}))
BOB = PolicyPrincipal("User", "user:bob", "default", frozenset({"guest"}))
NOBODY = PolicyPrincipal("User", "user:nobody", "default")


def rule(name: str, said: str, annotations: str = "") -> str:
    """A rule with all that it must have."""
    return f'@id("{name}") @text("The text of {name}.") {annotations}\n{said};\n'


def policy_of(*rules: str, shipped: bool = False, tags: tuple[str, ...] = (), **options: Any) -> Policy:
    """A policy of these rules alone, or of these and the shipped ones."""
    files = [shipped_rule_file()] if shipped else []
    return Policy(checked_rules([*files, RuleFile("own.cedar", "".join(rules))], build_vocabulary(tags)), **options)


def thing(name: str = "notes.add", *effects: str, tags: tuple[str, ...] = (), **more: Any) -> CallableTarget:
    """Something to call; it only reads where nothing else is said."""
    return CallableTarget(
        name,
        name.partition(".")[0],
        PluginTraits(tags=frozenset(tags), **more),
        frozenset(effects or ("read_only",)),
    )
