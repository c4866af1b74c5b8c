"""`paddock key …`: signing keys, and which keys are trusted."""

from __future__ import annotations

from pathlib import Path

import click

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.output.report import format_table, print_json, print_message, print_result, styled

app = PaddockGroup("key", help="Create signing keys, and manage the keys that are trusted.")


@app.command("add", examples=["paddock key add ~/paddock-signing.pem"])
@click.argument(
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file for the private key; an existing file is not overwritten.",
)
@options.as_json
def add(file: Path, *, as_json: bool) -> None:
    """Create a signing key for plugins, and print its public key. Keep the file private."""
    from paddock.plugins.trust.signing_keys import generate_key, key_id, read_public_key

    public = generate_key(file)
    if as_json:
        print_json({"file": str(file), "public_key": public, "key_id": key_id(read_public_key(public))})
        return
    print_message(f"{styled('✓', 'green')} wrote {file}; the public key is:")
    print_result(public)


@app.command("show", examples=["paddock key show ~/paddock-signing.pem"])
@click.argument(
    "file", type=click.Path(path_type=Path), metavar="FILE", help="A private key (PEM or OpenSSH) or a public key."
)
@options.as_json
def show(file: Path, *, as_json: bool) -> None:
    """Print the public key of a key file. The private key is not shown."""
    from paddock.plugins.trust.signing_keys import key_id, read_public_key_file

    public = read_public_key_file(file)
    if as_json:
        print_json({"file": str(file), "public_key": public.text, "key_id": key_id(public)})
        return
    print_result(public.text)


@app.command("trust", examples=["paddock key trust 'ed25519:…' --label 'Example Labs'"])
@click.argument("key", metavar="KEY|FILE", help="A public key: ed25519:…, ssh-ed25519 …, or a file with one.")
@click.option("--label", default="", help="The holder of the key.")
@options.as_json
def trust(key: str, *, label: str, as_json: bool) -> None:
    """Trust a public key: plugins that it signed are verified."""
    from paddock.cli.client.local_store import open_for_change
    from paddock.plugins.trust.trusted_keys import trust_key

    path = Path(key)
    is_file = not key.startswith(("ed25519:", "ssh-ed25519")) and path.is_file()
    with open_for_change() as host:
        row = trust_key(host.plugins, path if is_file else key, label or (path.stem if is_file else "unnamed"))
    if as_json:
        print_json({"key_id": row.key_id, "label": row.label, "public_key": row.public_key})
    print_message(f"{styled('✓', 'green')} trusting {row.label} ({row.key_id})")


@app.command("list", examples=["paddock key list --json"])
@options.as_json
def list_(*, as_json: bool) -> None:
    """List trusted keys."""
    from paddock.cli.client.local_store import open_for_read
    from paddock.plugins.trust.trusted_keys import list_trusted_keys

    with open_for_read() as host:
        rows = host.plugins.database.read(list_trusted_keys)
    if as_json:
        print_json(
            {
                "keys": [
                    {"key_id": row.key_id, "label": row.label, "public_key": row.public_key, "added_at": row.added_at}
                    for row in rows
                ]
            }
        )
    elif rows:
        for line in format_table(
            ["KEY", "LABEL", "SINCE", "PUBLIC KEY"],
            [[row.key_id, row.label, row.added_at[:10], row.public_key] for row in rows],
        ):
            print_result(line)
    else:
        print_message("no keys are trusted; try: paddock key trust KEY --label NAME")


@app.command("remove", examples=["paddock key remove 'Example Labs'"])
@click.argument("key", metavar="KEY", help="The id or the label of the key.")
@options.yes
@options.as_json
def remove(key: str, *, yes: bool, as_json: bool) -> None:
    """Stop trusting a key. Plugins that it signed stay installed, and are no longer verified."""
    from paddock.cli.client.local_store import open_for_change
    from paddock.cli.output.consent_prompt import confirm
    from paddock.plugins.trust.trusted_keys import distrust_key, require_trusted_key

    with open_for_change() as host:
        trusted = host.plugins.database.read(lambda tx: require_trusted_key(tx, key))
        confirm(
            f"Stop trusting {trusted.label} ({trusted.key_id})?", yes=yes, retype=f"paddock key remove {trusted.key_id}"
        )
        row = distrust_key(host.plugins, trusted.key_id)
    if as_json:
        print_json({"key_id": row.key_id, "label": row.label, "removed": True})
    print_message(f"{styled('✓', 'green')} no longer trusting {row.label} ({row.key_id})")
