"""The names under which pages and commands show the people and API keys of a tenant.

People choose their display names, and the labels of their keys, and either could read as another person. The rules:

- A display name stands alone if it consists of Latin letters, spaces and `.'’-`, has no reserved word, is no
  possessive, and no other person of the tenant has the same name. Any other is followed by the login: `Мария (maria)`.
  If it has other characters than letters and digits, it is also quoted, so that in a list it is one name:
  `“Ray, Ann Lee” (bob)`.
- The label of a key stands alone if it begins with a name that only its owner has and `'s`: `Ann's assistant`. Any
  other is shown with the owner and the word key: `Ann Lee’s key “mailer”`.

The principal itself, as in `user:ann`, is what identifies a person.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from paddock.core.printable import printable
from paddock.store.transaction import Transaction

_MAX_SHOWN_CHARS: Final = 80
_LATIN: Final = r"A-Za-zÀ-ÖØ-öø-ƿǄ-ɏḀ-ỿ"
"""The letters of Latin alphabets, without those like `ǃ` and `ɑ` that stand for a sound."""
_PLAIN_NAME: Final = re.compile(f"(?=.*[{_LATIN}])[{_LATIN} .'’-]+")
_POSSESSIVE: Final = re.compile(r"(?P<owner>[\w .'’-]+?)['’]s +(?P<rest>[\w .'’-]*\w[\w .'’-]*)")
_IS_POSSESSIVE: Final = re.compile(r"['’]s?(?:\s|$)", re.IGNORECASE)
_LIST_LIKE: Final = re.compile(r"[^\w .'’-]")
"""Characters with which a name could read as several names, or as more than a name."""
_QUOTES: Final = dict.fromkeys(map(ord, '"“”„‟«»＂'), "'")
_INVISIBLE_LETTERS: Final = "\u115f\u1160\u3164\uffa0"
"""Fillers, which are letters to Unicode. Other ignorable characters are marks or controls."""
_LOOK_ALIKES: Final = str.maketrans({"l": "i", "ı": "i", "ł": "i", "ø": "o", "đ": "d", "ħ": "h", "ŧ": "t"})
"""Letters that look like another in some typeface or at a glance: `AIice` with a capital i."""


class OwnedLabel(NamedTuple):
    """The label of an API key, and the login name of its owner."""

    label: str
    owner: str


class ChosenNames(NamedTuple):
    """What the people and API keys of a tenant were named: display names by login, and labels by key id."""

    people: dict[str, str]
    keys: dict[str, OwnedLabel]

    def shown(self) -> dict[str, str]:
        """Return the names by principal; see `shown_names`."""
        return shown_names(self.people, self.keys)


def read_chosen_names(tx: Transaction, tenant: str) -> ChosenNames:
    """Read the display names and labels of a tenant."""
    people = tx.tuples("SELECT name, display_name FROM people WHERE tenant = ?", (tenant,))
    keys = tx.tuples("SELECT id, label, owner FROM api_keys WHERE tenant = ?", (tenant,))
    return ChosenNames(dict(people), {id_: OwnedLabel(label, owner) for id_, label, owner in keys})


def read_names(tx: Transaction, tenant: str) -> dict[str, str]:
    """Return what the people and API keys of a tenant are called, by principal; a host uses a `DisplayNameCache`.

    A person without a display name is left out: they are called by their login name.
    """
    return read_chosen_names(tx, tenant).shown()


def shown_names(people: Mapping[str, str], keys: Mapping[str, OwnedLabel]) -> dict[str, str]:
    """Return the names by principal. Pure.

    Args:
        people: The display names by login name.
        keys: The labels by key id.
    """
    display_names = {login: name for login, name in people.items() if name != login and name.strip()}
    standalone = {login: name for login, name in display_names.items() if _stands_alone(name)}
    bearers = Counter(
        alias for login in people for alias in {_comparable(login), *_aliases(display_names.get(login, ""))}
    )
    names: dict[str, str] = {}
    for login, name in display_names.items():
        unique = login in standalone and bearers[_comparable(name)] == 1
        names[f"user:{login}"] = printable(name, _MAX_SHOWN_CHARS) if unique else _with_login(name, login)
    for key_id, (label, owner) in keys.items():
        own_aliases = {_comparable(owner), *_aliases(standalone.get(owner, ""))}
        names[f"key:{key_id}"] = label_with_owner(
            label, key_id, names.get(f"user:{owner}", owner), {alias for alias in own_aliases if bearers[alias] == 1}
        )
    return names


def find_name(principal: str, names: Mapping[str, str]) -> str | None:
    """Return what a principal of this tenant is called; None if it has no name of its own."""
    kind, _, bare_name = principal.partition(":")
    return names.get(f"user:{bare_name}" if kind == "token" else principal)  # a token is a person’s


def label_with_owner(label: str, key_id: str, owner: str, aliases: Collection[str]) -> str:
    """Return the label of a key, with its owner unless it begins with them.

    Args:
        label: The label; the key’s id stands for an empty one.
        key_id: The id of the key.
        owner: What its owner is called.
        aliases: What only the owner is called, as `_comparable` returns it.
    """
    shown = printable(label, _MAX_SHOWN_CHARS)
    possessive = _POSSESSIVE.fullmatch(shown)
    if possessive and _comparable(possessive["owner"]) in aliases:
        return shown
    return f"{owner}’s key {_quoted(shown) if shown.strip() else key_id}"


def _stands_alone(name: str) -> bool:
    words = _comparable(name).split()
    return bool(_PLAIN_NAME.fullmatch(name)) and not _IS_POSSESSIVE.search(name) and _RESERVED.isdisjoint(words)


def _with_login(name: str, login: str) -> str:
    shown = printable(name, _MAX_SHOWN_CHARS)
    return f"{_quoted(shown) if _LIST_LIKE.search(shown) else shown} ({login})"


def _quoted(text: str) -> str:
    return f"“{text.translate(_QUOTES)}”"


def _aliases(name: str) -> set[str]:
    """Return a display name and its first word, comparable."""
    return {_comparable(name), _comparable(name.strip().partition(" ")[0])} - {""}


def _comparable(name: str) -> str:
    """Return a name so that names which look nearly the same are equal: without accents, signs and fillers."""
    if name.isascii():
        return " ".join(name.translate(_COMPARABLE_ASCII).split())
    folded = unicodedata.normalize("NFKD", name).casefold()
    return " ".join("".join(map(_comparable_character, folded)).translate(_LOOK_ALIKES).split())


def _comparable_character(character: str) -> str:
    if character.isalnum() and character not in _INVISIBLE_LETTERS:
        return character
    dropped = character in "'’" or character in _INVISIBLE_LETTERS or unicodedata.category(character)[0] in "MC"
    return "" if dropped and character not in "\t\n" else " "


_COMPARABLE_ASCII: Final = {
    code: _comparable_character(chr(code).lower()).translate(_LOOK_ALIKES) for code in range(128)
}
_RESERVED: Final = frozenset(
    _comparable(word)
    for word in (
        *("a", "an", "the", "this", "and", "or", "of", "for", "with", "by", "as", "via"),
        *("you", "your", "yours", "yourself", "me", "i", "no", "nobody", "none", "anyone", "anybody", "everyone"),
        *("everybody", "someone", "somebody", "unknown", "erased", "deleted", "removed", "system", "host", "server"),
        *("agent", "adapter", "plugin", "api", "key", "token", "user", "users", "local", "role", "group", "members"),
        *("person", "people", "operator", "approver", "admin", "administrator", "owner", "root", "paddock"),
    )
)
"""Words with which pages name others than people, or several people."""
