"""`paddock secret …`: secrets for plugins. No value is ever shown."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.client.api_client import open_client, path_segment
from paddock.cli.client.secret_input import check_secret_value, prompt_hidden, warn_about_store_log
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
from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.core.secret import Secret

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
    from paddock.secrets.rows import validate_secret_name

    validate_secret_name(name)
    with open_client(tenant, asks_passphrase=True) as client:
        client.get(f"/secrets{_owner_query(user or '')}")  # an unknown person is reported before the value is typed
        value = _prompt_value(name)
        stored = client.put(f"/secrets/{path_segment(name)}{_owner_query(user)}", {"value": value.reveal()})
    log = stored.pop("log", None)
    report_change(as_json, f"set {_secret_name(stored)}, version {stored['version']}", **stored)
    warn_about_store_log(log)


@app.command("list", examples=["paddock secret list --json"])
@secret_owner_option
@options.tenant
@options.as_json
def list_(*, user: str | None, tenant: str, as_json: bool) -> None:
    """List secrets with their owners, who set them and when. Values are not shown."""
    with open_client(tenant) as client:
        listed = client.get(f"/secrets{_owner_query(user)}")
    if as_json:
        print_json(listed)
    elif listed["secrets"]:
        cells = [
            [
                *(row["name"], row["owner"] or "everybody", str(row["version"])),
                *(row["set_at"][:16].replace("T", " "), row["set_by"]),
            ]
            for row in listed["secrets"]
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
    path = _secret_path(name, user, tenant)
    with open_client(tenant) as client:
        row = client.get(path)
    if as_json:
        print_json(row)
        return
    set_at = row["set_at"][:16].replace("T", " ")
    print_facts(
        {
            "secret": row["name"],
            "owner": row["owner"] or f"tenant {tenant}",
            "version": str(row["version"]),
            "set": f"{set_at} by {row['set_by']}",
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
    from paddock.cli.output.consent_prompt import confirm

    path = _secret_path(name, user, tenant)
    user_option = f" --user {user}" if user else ""
    retype = f"paddock secret remove {shlex.quote(name)}{user_option}{tenant_option(tenant)}"
    with open_client(tenant) as client:
        confirm(f"Erase {_secret_name(client.get(path))}?", yes=yes, retype=retype)
        erased = {"log": None} | client.delete(path)
    report_change(as_json, f"erased {_secret_name(erased)}", **erased)
    warn_about_store_log(erased["log"])


@app.command("rotate", examples=["paddock secret rotate --yes", "paddock secret rotate --to keyring"])
@click.option("--to", metavar="PLACE", help="Where to store the new key: file, keyring, credential or passphrase.")
@options.yes
@options.as_json
def rotate(*, to: str | None, yes: bool, as_json: bool) -> None:
    """Re-encrypt the secrets of all tenants with a new key. An interrupted rotation continues when run again."""
    from paddock.cli.output.consent_prompt import confirm
    from paddock.secrets.wrapping_keys import AUTO

    if to is not None and to not in ("file", "keyring", "credential", "passphrase"):
        raise click.BadParameter("choose file, keyring, credential or passphrase", param_hint="--to")
    confirm(
        "Encrypt all secrets with a new key? Secrets in older copies of the database can then no longer be read.",
        yes=yes,
        retype="paddock secret rotate" + (f" --to {to}" if to else ""),
    )
    with open_client(asks_passphrase=True) as client:
        rotation = client.post("/secret-key/rotate", {"to": to} if to else {}, timeout_s=None)
    rotated, key_id, setting = rotation["rotated"], rotation["key_id"], rotation["key_setting"]
    message = f"{'1 secret is' if rotated == 1 else f'{rotated} secrets are'} encrypted with the key {key_id}"
    if key_id is None:
        message = "there are no secrets yet, and no key"
    elif rotation["resumed"]:
        message += ", which ends the rotation that was begun before"
    kept_ids = [key["key_id"] for key in rotation["kept_keys"]]
    report_change(as_json, message, rotated=rotated, key_id=key_id, left=rotation["left"], kept_keys=kept_ids)
    _report_unrotated(rotation)
    if key_id is not None and to is not None and setting not in (AUTO, to):
        message = f"the setting secrets.key still says {setting}: the next rotation puts the key there"
        print_message(f"  {styled('!', 'yellow')} {message}")
        print_message(f"    {styled('→', 'dim')} to keep it where it is now, let it say {to}")


def _report_unrotated(rotation: Mapping[str, Any]) -> None:
    """Print which secrets were not rotated, what to do about it, and which keys are kept for them."""
    texts = {
        "damaged": "damaged, and left as they are; set them again or remove them, then rotate again",
        "key_missing": "left as they are, for their key is not here; put it back, or set them again, then rotate again",
    }
    mark = styled("!", "yellow")
    for reason, text in texts.items():
        names = [_unrotated_name(item) for item in rotation["left"] if item["reason"] == reason]
        if names:
            print_message(f"  {mark} {text}: {printable(', '.join(names), 400)}")
    for key in rotation["kept_keys"]:
        print_message(f"  {mark} the key {key['key_id']} was not destroyed: {printable(key['reason'], 400)}")


def _unrotated_name(secret: Mapping[str, str]) -> str:
    tenant = secret["tenant"] if secret["tenant"] != DEFAULT_TENANT else ""
    return " of ".join(name for name in (secret["name"], secret["owner"], tenant) if name)


def _secret_path(name: str, user: str | None, tenant: str) -> str:
    """Return the path of a secret.

    Raises:
        NotFound: no secret can have this name.
    """
    from paddock.core.secret import is_valid_secret_name

    if not is_valid_secret_name(name):
        from paddock.secrets.rows import unknown_secret_error

        raise unknown_secret_error(tenant, name)
    return f"/secrets/{path_segment(name)}{_owner_query(user)}"


def _owner_query(user: str | None) -> str:
    return "" if user is None else f"?owner={path_segment(user)}"


def _prompt_value(name: str) -> Secret:
    """Prompt for the value without echo; without a terminal, read it from stdin."""
    from paddock.core.secret import Secret
    from paddock.secrets.rows import MAX_SECRET_CHARS

    text = (
        prompt_hidden(name).reveal() if sys.stdin.isatty() else sys.stdin.read(MAX_SECRET_CHARS + 1).removesuffix("\n")
    )
    return Secret(check_secret_value(text, "paddock secret remove forgets one"))


def _secret_name(secret: Mapping[str, Any]) -> str:
    owner = f" of {secret['owner']}" if secret["owner"] else ""
    return f"the secret {printable(secret['name'], 128)}{owner}"
