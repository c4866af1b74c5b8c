"""Rules, people and things to call, made up in a line each."""

from __future__ import annotations

from typing import Any

from paddock.policy.engine import Policy
from paddock.policy.rules import RuleFile, checked_rules, shipped_file
from paddock.policy.subject import Subject, Traits
from paddock.policy.target import CallableTarget
from paddock.policy.vocabulary import vocabulary

CALL = 'principal, action in Action::"anyCall", resource'
ANN = Subject("User", "user:ann", "default", frozenset({"member"}))
BOB = Subject("User", "user:bob", "default", frozenset({"guest"}))
NOBODY = Subject("User", "user:nobody", "default")


def rule(name: str, said: str, annotations: str = "") -> str:
    """A rule with all that it must have."""
    return f'@id("{name}") @text("The text of {name}.") {annotations}\n{said};\n'


def policy_of(*rules: str, shipped: bool = False, tags: tuple[str, ...] = (), **options: Any) -> Policy:
    """A policy of these rules alone, or of these and the shipped ones."""
    files = [shipped_file()] if shipped else []
    return Policy(checked_rules([*files, RuleFile("own.cedar", "".join(rules))], vocabulary(tags)), **options)


def thing(name: str = "notes.add", *effects: str, tags: tuple[str, ...] = (), **more: Any) -> CallableTarget:
    """Something to call; it only reads where nothing else is said."""
    return CallableTarget(
        name,
        name.partition(".")[0],
        Traits(tags=frozenset(tags), **more),
        frozenset(effects or ("read_only",)),
    )
