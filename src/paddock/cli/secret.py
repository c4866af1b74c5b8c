"""`paddock secret …`: values that plugins use and nobody sees."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, result, say, styled, table
from paddock.cli.principals import DEFAULT, OfTenant, at_this_machine, changes_in, done, read
from paddock.cli.secret_keys import checked_value, keys_for, tell_of_log, typed_unseen
from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.core.secret import Secret
    from paddock.secrets.rotation import Left, Rotated
    from paddock.secrets.rows import Listed
    from paddock.store.database import Transaction

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Keep secrets for plugins; no value is ever shown.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What plugins know it by, as in api_key.")]
OfPerson = Annotated[
    str | None, typer.Option("--user", metavar="PERSON", help="Whose it is; of the whole tenant without.")
]


@app.command("set", epilog="Examples: paddock secret set api_key   ·   paddock secret set api_key --user ann")
@reporting
def set_(name: Name, *, user: OfPerson = None, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Set a secret. The value is asked for, unseen, or read from stdin; there is no option for it."""
    from paddock.cli.opening import reading
    from paddock.host.secret_keeping import keep
    from paddock.secrets.rows import checked_name

    checked_name(name)
    owner = _owner(tenant, user)
    value = _typed(name)
    with reading(tenant) as host:
        kept, log = keep(host.plugins, keys_for(host), name, owner, value)
    done(as_json, f"set {_named(kept)}, version {kept.version}", **_value(kept))
    tell_of_log(log)


@app.command("list", epilog="Example: paddock secret list --json")
@reporting
def list_(*, user: OfPerson = None, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """List secrets: what they are called, whose they are, who set them and when. No value is shown."""
    from paddock.principals.tenants import require_tenant
    from paddock.secrets.rows import secrets

    read(lambda tx: require_tenant(tx, tenant))
    owner = _owner(tenant, user) if user is not None else None
    rows = read(lambda tx: secrets(tx, tenant, owner))
    if as_json:
        document({"tenant": tenant, "secrets": [_value(row) for row in rows]})
    elif rows:
        cells = [
            [row.name, row.owner or "everybody", str(row.version), row.set_at[:16].replace("T", " "), row.set_by]
            for row in rows
        ]
        for line in table(["SECRET", "WHOSE", "VERSION", "SET", "BY"], cells):
            result(line)
    else:
        say(f"there are no secrets; try: paddock secret set NAME{for_tenant(tenant)}")


@app.command("rm", epilog="Example: paddock secret rm api_key --yes")
@reporting
def remove(
    name: Name, *, user: OfPerson = None, tenant: OfTenant = DEFAULT, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Erase a secret, with the key of its own that it was sealed under."""
    from paddock.cli.consent import confirm
    from paddock.cli.opening import reading
    from paddock.host.secret_keeping import erase
    from paddock.secrets.rows import require_secret

    owner = _owner(tenant, user)
    found = read(lambda tx: require_secret(tx, tenant, name, owner))
    whose = f" --user {user}" if user else ""
    confirm(
        f"Erase {_named(found)}?", yes=yes, retype=f"paddock secret rm {shlex.quote(name)}{whose}{for_tenant(tenant)}"
    )
    with reading(tenant) as host:
        row, log = erase(host.plugins, name, owner)
    done(as_json, f"erased {_named(row)}", **_value(row), removed=True, log=str(log) if log else None)
    tell_of_log(log)


@app.command("rotate", epilog="Examples: paddock secret rotate --yes   ·   paddock secret rotate --to keyring")
@reporting
def rotate(
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="PLACE", help="Where the new key goes: file, keyring, credential or passphrase."),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Put the secrets of all tenants under a new key. Killed on the way, it goes on where it ended when run again."""
    from paddock.cli.consent import confirm
    from paddock.cli.opening import reading
    from paddock.core.clock import SystemRandom
    from paddock.secrets import rotation
    from paddock.secrets.keys import AUTO

    if to is not None and to not in ("file", "keyring", "credential", "passphrase"):
        raise typer.BadParameter("choose file, keyring, credential or passphrase", param_hint="--to")
    confirm(
        "Put all secrets under a new key? Copies of the database that were made before open nowhere then.",
        yes=yes,
        retype="paddock secret rotate" + (f" --to {to}" if to else ""),
    )
    with reading() as host:
        setting = host.loaded.settings.secrets.key
        rotated = rotation.rotate(
            host.plugins.database, keys_for(host), SystemRandom(), changes_in(host.plugins), preferred=to
        )
    if rotated is None:
        done(as_json, "there are no secrets yet, and no key", rotated=0, key_id=None, left=[], kept_keys=[])
        return
    many = "1 secret" if rotated.moved == 1 else f"{rotated.moved} secrets"
    words = f"{many} went under the key {rotated.key_id}"
    if rotated.resumed:
        words += ", which ends the rotation that was begun before"
    left, kept = [asdict(one) for one in rotated.left], list(rotated.kept)
    done(as_json, words, rotated=rotated.moved, key_id=rotated.key_id, left=left, kept_keys=kept)
    _tell_of_left(rotated)
    if to is not None and setting not in (AUTO, to):
        words = f"the setting secrets.key still says {setting}: the next rotation puts the key there"
        say(f"  {styled('!', 'yellow')} {words}")
        say(f"    {styled('→', 'dim')} to keep it where it is now, let it say {to}")


def _tell_of_left(rotated: Rotated) -> None:
    """Say which secrets did not go under the new key, what can be done about it, and which keys are kept for them."""
    ways = {
        "damaged": "damaged, and left as they are; set them again or remove them, then rotate again",
        "key_missing": "left as they are, for their key is not here; put it back, or set them again, then rotate again",
    }
    mark = styled("!", "yellow")
    for reason, what in ways.items():
        names = [_left_name(one) for one in rotated.left if one.reason == reason]
        if names:
            say(f"  {mark} {what}: {printable(', '.join(names), 400)}")
    for key_id, reason in rotated.kept.items():
        say(f"  {mark} the key {key_id} was not destroyed: {printable(reason, 400)}")


def _left_name(one: Left) -> str:
    whose = " of ".join(name for name in (one.owner, one.tenant if one.tenant != DEFAULT else "") if name)
    return f"{one.name} of {whose}" if whose else one.name


def _owner(tenant: str, user: str | None) -> str:
    """Whose it is, as the rows have it: a person by name, or whoever types this as `local:NAME`."""
    from paddock.principals.people import require_person
    from paddock.principals.tenants import require_tenant

    def unit(tx: Transaction) -> str:
        require_tenant(tx, tenant)
        return require_person(tx, tenant, user).id if user else ""

    if user is not None and user.startswith("local:"):
        if user != at_this_machine():
            raise NotFound(f"{printable(user, 80)} is not who types this", code="person.not_found")
        read(lambda tx: require_tenant(tx, tenant))
        return user
    return read(unit)


def _typed(name: str) -> Secret:
    """What a person types at the prompt, unseen; without a terminal, what stdin holds."""
    from paddock.core.secret import Secret
    from paddock.secrets.rows import LONGEST_VALUE

    text = typed_unseen(name).reveal() if sys.stdin.isatty() else sys.stdin.read(LONGEST_VALUE + 1).removesuffix("\n")
    return Secret(checked_value(text, "paddock secret rm forgets one"))


def _named(row: Listed) -> str:
    whose = f" of {row.owner}" if row.owner else ""
    return f"the secret {printable(row.name, 128)}{whose}"


def _value(row: Listed) -> dict[str, Any]:
    return {
        "name": row.name,
        "tenant": row.tenant,
        "scope": row.scope.value,
        "owner": row.owner or None,
        "version": row.version,
        "set_at": row.set_at,
        "set_by": row.set_by,
    }
