"""`paddock secret …`: secrets for plugins. No value is ever shown."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.client.secret_input import check_secret_value, open_wrapping_keys, prompt_hidden, warn_about_store_log
from paddock.cli.client.store_access import (
    DEFAULT_TENANT_NAME,
    audited_transactions,
    local_principal,
    read_store,
)
from paddock.cli.command import PaddockGroup
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import (
    format_table,
    print_facts,
    print_json,
    print_message,
    print_result,
    report_change,
    styled,
)
from paddock.core.errors import NotFound
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.core.secret import Secret
    from paddock.secrets.rotation import RotationResult, UnrotatedSecret
    from paddock.secrets.rows import SecretInfo
    from paddock.store.database import Transaction

app = PaddockGroup("secret", help="Manage the secrets of plugins. Values are never shown.")

secret_name_argument = click.argument("name", metavar="NAME", help="The name that plugins use, such as api_key.")
secret_owner_option = click.option(
    "--user", metavar="PERSON", help="The person who owns the secret. [default: the whole tenant]"
)


@app.command("set", examples=["paddock secret set api_key", "paddock secret set api_key --user ann"])
@secret_name_argument
@secret_owner_option
@options.tenant
@options.as_json
def set_(name: str, *, user: str | None, tenant: str, as_json: bool) -> None:
    """Set a secret. The value is read from a hidden prompt or from stdin."""
    from paddock.cli.client.local_store import open_for_read
    from paddock.host.secrets.secret_service import store_secret
    from paddock.secrets.rows import validate_secret_name

    validate_secret_name(name)
    owner = _resolve_owner(tenant, user)
    value = _prompt_value(name)
    with open_for_read(tenant) as host:
        stored, log = store_secret(host.plugins, open_wrapping_keys(host), name, owner, value)
    report_change(as_json, f"set {_secret_name(stored)}, version {stored.version}", **_secret_json(stored))
    warn_about_store_log(log)


@app.command("list", examples=["paddock secret list --json"])
@secret_owner_option
@options.tenant
@options.as_json
def list_(*, user: str | None, tenant: str, as_json: bool) -> None:
    """List secrets with their owners, who set them and when. Values are not shown."""
    from paddock.principals.tenants import require_tenant
    from paddock.secrets.rows import list_secrets

    read_store(lambda tx: require_tenant(tx, tenant))
    owner = _resolve_owner(tenant, user) if user is not None else None
    rows = read_store(lambda tx: list_secrets(tx, tenant, owner))
    if as_json:
        print_json({"tenant": tenant, "secrets": [_secret_json(row) for row in rows]})
    elif rows:
        cells = [
            [row.name, row.owner or "everybody", str(row.version), row.set_at[:16].replace("T", " "), row.set_by]
            for row in rows
        ]
        for line in format_table(["SECRET", "WHOSE", "VERSION", "SET", "BY"], cells):
            print_result(line)
    else:
        print_message(f"there are no secrets; try: paddock secret set NAME{tenant_option(tenant)}")


@app.command("show", examples=["paddock secret show api_key"])
@secret_name_argument
@secret_owner_option
@options.tenant
@options.as_json
def show(name: str, *, user: str | None, tenant: str, as_json: bool) -> None:
    """Show who set a secret and when. Its value is never shown."""
    from paddock.secrets.rows import require_secret

    owner = _resolve_owner(tenant, user)
    row = read_store(lambda tx: require_secret(tx, tenant, name, owner))
    if as_json:
        print_json(_secret_json(row))
        return
    set_at = row.set_at[:16].replace("T", " ")
    print_facts(
        {
            "secret": row.name,
            "owner": row.owner or f"tenant {tenant}",
            "version": str(row.version),
            "set": f"{set_at} by {row.set_by}",
        }
    )


@app.command("remove", examples=["paddock secret remove api_key --yes"])
@secret_name_argument
@secret_owner_option
@options.tenant
@options.yes
@options.as_json
def remove(name: str, *, user: str | None, tenant: str, yes: bool, as_json: bool) -> None:
    """Erase a secret and its data key."""
    from paddock.cli.client.local_store import open_for_read
    from paddock.cli.output.consent_prompt import confirm
    from paddock.host.secrets.secret_service import erase_secret
    from paddock.secrets.rows import require_secret

    owner = _resolve_owner(tenant, user)
    secret = read_store(lambda tx: require_secret(tx, tenant, name, owner))
    user_option = f" --user {user}" if user else ""
    confirm(
        f"Erase {_secret_name(secret)}?",
        yes=yes,
        retype=f"paddock secret remove {shlex.quote(name)}{user_option}{tenant_option(tenant)}",
    )
    with open_for_read(tenant) as host:
        row, log = erase_secret(host.plugins, name, owner)
    report_change(
        as_json, f"erased {_secret_name(row)}", **_secret_json(row), removed=True, log=str(log) if log else None
    )
    warn_about_store_log(log)


@app.command("rotate", examples=["paddock secret rotate --yes", "paddock secret rotate --to keyring"])
@click.option("--to", metavar="PLACE", help="Where to store the new key: file, keyring, credential or passphrase.")
@options.yes
@options.as_json
def rotate(*, to: str | None, yes: bool, as_json: bool) -> None:
    """Re-encrypt the secrets of all tenants with a new key. An interrupted rotation continues when run again."""
    from paddock.cli.client.local_store import open_for_read
    from paddock.cli.output.consent_prompt import confirm
    from paddock.core.clock import SystemRandom
    from paddock.secrets import rotation
    from paddock.secrets.wrapping_keys import AUTO

    if to is not None and to not in ("file", "keyring", "credential", "passphrase"):
        raise click.BadParameter("choose file, keyring, credential or passphrase", param_hint="--to")
    confirm(
        "Put all secrets under a new key? Copies of the database that were made before open nowhere then.",
        yes=yes,
        retype="paddock secret rotate" + (f" --to {to}" if to else ""),
    )
    with open_for_read() as host:
        setting = host.loaded.settings.secrets.key
        rotated = rotation.rotate(
            host.plugins.database,
            open_wrapping_keys(host),
            SystemRandom(),
            audited_transactions(host.plugins),
            preferred=to,
        )
    if rotated is None:
        report_change(as_json, "there are no secrets yet, and no key", rotated=0, key_id=None, left=[], kept_keys=[])
        return
    count = "1 secret" if rotated.moved == 1 else f"{rotated.moved} secrets"
    message = f"{count} went under the key {rotated.key_id}"
    if rotated.resumed:
        message += ", which ends the rotation that was begun before"
    left, kept = [asdict(item) for item in rotated.left], list(rotated.kept)
    report_change(as_json, message, rotated=rotated.moved, key_id=rotated.key_id, left=left, kept_keys=kept)
    _report_unrotated(rotated)
    if to is not None and setting not in (AUTO, to):
        message = f"the setting secrets.key still says {setting}: the next rotation puts the key there"
        print_message(f"  {styled('!', 'yellow')} {message}")
        print_message(f"    {styled('→', 'dim')} to keep it where it is now, let it say {to}")


def _report_unrotated(rotated: RotationResult) -> None:
    """Print which secrets were not rotated, what to do about it, and which keys are kept for them."""
    texts = {
        "damaged": "damaged, and left as they are; set them again or remove them, then rotate again",
        "key_missing": "left as they are, for their key is not here; put it back, or set them again, then rotate again",
    }
    mark = styled("!", "yellow")
    for reason, text in texts.items():
        names = [_unrotated_name(item) for item in rotated.left if item.reason == reason]
        if names:
            print_message(f"  {mark} {text}: {printable(', '.join(names), 400)}")
    for key_id, reason in rotated.kept.items():
        print_message(f"  {mark} the key {key_id} was not destroyed: {printable(reason, 400)}")


def _unrotated_name(secret: UnrotatedSecret) -> str:
    owner = " of ".join(
        name for name in (secret.owner, secret.tenant if secret.tenant != DEFAULT_TENANT_NAME else "") if name
    )
    return f"{secret.name} of {owner}" if owner else secret.name


def _resolve_owner(tenant: str, user: str | None) -> str:
    """Return the owner as stored: a person's id, or the local principal as `local:NAME`."""
    from paddock.principals.people import require_person
    from paddock.principals.tenants import require_tenant

    def unit(tx: Transaction) -> str:
        require_tenant(tx, tenant)
        return require_person(tx, tenant, user).id if user else ""

    if user is not None and user.startswith("local:"):
        if user != local_principal():
            raise NotFound(f"{printable(user, 80)} is not who types this", code="person.not_found")
        read_store(lambda tx: require_tenant(tx, tenant))
        return user
    return read_store(unit)


def _prompt_value(name: str) -> Secret:
    """Prompt for the value without echo; without a terminal, read it from stdin."""
    from paddock.core.secret import Secret
    from paddock.secrets.rows import MAX_SECRET_CHARS

    text = (
        prompt_hidden(name).reveal() if sys.stdin.isatty() else sys.stdin.read(MAX_SECRET_CHARS + 1).removesuffix("\n")
    )
    return Secret(check_secret_value(text, "paddock secret remove forgets one"))


def _secret_name(row: SecretInfo) -> str:
    owner = f" of {row.owner}" if row.owner else ""
    return f"the secret {printable(row.name, 128)}{owner}"


def _secret_json(row: SecretInfo) -> dict[str, Any]:
    return {
        "name": row.name,
        "tenant": row.tenant,
        "scope": row.scope.value,
        "owner": row.owner or None,
        "version": row.version,
        "set_at": row.set_at,
        "set_by": row.set_by,
    }
