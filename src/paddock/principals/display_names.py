"""The names under which pages and commands show the people and API keys of a tenant.

People choose their display names, and the labels of their keys. So a name that could be taken for another is shown with
the login name, and a label with its owner. The principal itself, as in `user:ann`, is what identifies somebody.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from paddock.core.printable import printable
from paddock.store.transaction import Transaction

_MAX_SHOWN_CHARS: Final = 80
_LIKE_OTHERS: Final = re.compile(
    r"(?:agent|adapter|plugin|api key|key|members of|anyone with|an erased|local|root|paddock)\b|[^(]*\(|[^'’]*['’]s\b"
)
"""Names that read like a principal of another kind, like a key (`ann’s assistant`), or like a name with its login."""


class OwnedLabel(NamedTuple):
    """The label of an API key, and the login name of its owner."""

    label: str
    owner: str


def read_names(tx: Transaction, tenant: str) -> dict[str, str]:
    """Return what the people and API keys of a tenant are called, by principal.

    A person without a display name is left out: they are called by their login name.
    """
    people = tx.all("SELECT name, display_name FROM people WHERE tenant = ?", (tenant,))
    keys = tx.all("SELECT id, owner, label FROM api_keys WHERE tenant = ?", (tenant,))
    return shown_names(
        {row["name"]: row["display_name"] for row in people},
        {row["id"]: OwnedLabel(row["label"], row["owner"]) for row in keys},
    )


def shown_names(people: Mapping[str, str], keys: Mapping[str, OwnedLabel]) -> dict[str, str]:
    """Return the names by principal. Pure.

    Args:
        people: The display names by login name.
        keys: The labels by key id.
    """
    display_names = {
        login: printable(name, _MAX_SHOWN_CHARS) for login, name in people.items() if name != login and name.strip()
    }
    aliases = {login: _aliases(name) for login, name in display_names.items()}
    bearers = Counter([*people, *(alias for login, own in aliases.items() for alias in own if alias != login)])
    names: dict[str, str] = {}
    for login, name in display_names.items():
        comparable = _comparable(name)
        ambiguous = bearers[comparable] > 1 or _LIKE_OTHERS.match(comparable)
        names[f"user:{login}"] = f"{name} ({login})" if ambiguous else name
    for key_id, (label, owner) in keys.items():
        own_aliases = [alias for alias in aliases.get(owner, ()) if bearers[alias] == 1]
        owner_name = names.get(f"user:{owner}", owner)
        names[f"key:{key_id}"] = label_with_owner(
            printable(label, _MAX_SHOWN_CHARS) or f"key {key_id}", owner_name, (owner, *own_aliases)
        )
    return names


def find_name(principal: str, names: Mapping[str, str]) -> str | None:
    """Return what a principal of this tenant is called; None if it has no name of its own."""
    kind, _, bare_name = principal.partition(":")
    return names.get(f"user:{bare_name}" if kind == "token" else principal)  # a token is a person’s


def label_with_owner(label: str, owner: str, aliases: Iterable[str]) -> str:
    """Return the label of a key with its owner, as in `ann’s assistant`: people choose labels, also misleading ones.

    Args:
        label: The label.
        owner: What its owner is called.
        aliases: What only the owner is called, in small letters. A label that begins with one of them stays as it is:
            “Ann's assistant”.
    """
    comparable = _comparable(label)
    named = any(comparable.startswith(alias) and not comparable[len(alias) :][:1].isalnum() for alias in aliases)
    return label if named else f"{owner}’s {label}"


def _aliases(name: str) -> set[str]:
    """Return a display name and its first word, comparable."""
    comparable = _comparable(name)
    return {comparable, comparable.partition(" ")[0]} - {""}


def _comparable(name: str) -> str:
    """Return a name so that names which look the same to people are equal."""
    plain = name.lower() if name.isascii() else unicodedata.normalize("NFKC", name).casefold()
    return " ".join(plain.split())
