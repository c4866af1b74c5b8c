"""`paddock key …`: signing keys, and whose signatures count here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, result, say, styled, table

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Make signing keys and decide whose signatures to trust."
)


@app.command("new", epilog="Example: paddock key new ~/paddock-signing.pem")
@reporting
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the private key goes; never overwritten.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Make a key to sign plugins with. Keep the file to yourself; the printed text is for others."""
    from paddock.plugins.keys import key_id, new_key, read_public_key

    public = new_key(file)
    if as_json:
        document({"file": str(file), "public_key": public, "key_id": key_id(read_public_key(public))})
        return
    say(f"{styled('✓', 'green')} wrote {file}; the public key is:")
    result(public)


@app.command("show", epilog="Example: paddock key show ~/paddock-signing.pem")
@reporting
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A private key, as PEM or OpenSSH, or a public one.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Print the public key of a key file: what others trust. Nothing private is shown."""
    from paddock.plugins.keys import key_id, public_key_in

    public = public_key_in(file)
    if as_json:
        document({"file": str(file), "public_key": public.text, "key_id": key_id(public)})
        return
    result(public.text)


@app.command("trust", epilog="Example: paddock key trust 'ed25519:…' --label 'Example Labs'")
@reporting
def trust(
    key: Annotated[
        str, typer.Argument(metavar="KEY|FILE", help="A public key: ed25519:…, ssh-ed25519 …, or a file with one.")
    ],
    *,
    label: Annotated[str, typer.Option(help="Whose key it is.")] = "",
    as_json: AsJson = False,
) -> None:
    """Trust a key: what its holder signed counts as verified."""
    from paddock.cli.opening import changing
    from paddock.plugins.trust import trust_key

    path = Path(key)
    readable = not key.startswith(("ed25519:", "ssh-ed25519")) and path.is_file()
    with changing() as host:
        row = trust_key(host.plugins, path if readable else key, label or (path.stem if readable else "unnamed"))
    if as_json:
        document({"key_id": row.key_id, "label": row.label, "public_key": row.public_key})
    say(f"{styled('✓', 'green')} trusting {row.label} ({row.key_id})")


@app.command("list", epilog="Example: paddock key list --json")
@reporting
def list_(*, as_json: AsJson = False) -> None:
    """List trusted keys."""
    from paddock.cli.opening import reading
    from paddock.plugins.trust import trusted_keys

    with reading() as host:
        rows = host.plugins.database.read(trusted_keys)
    if as_json:
        document(
            {
                "keys": [
                    {"key_id": row.key_id, "label": row.label, "public_key": row.public_key, "added_at": row.added_at}
                    for row in rows
                ]
            }
        )
    elif rows:
        for line in table(
            ["KEY", "LABEL", "SINCE", "PUBLIC KEY"],
            [[row.key_id, row.label, row.added_at[:10], row.public_key] for row in rows],
        ):
            result(line)
    else:
        say("no keys are trusted; try: paddock key trust KEY --label NAME")


@app.command("remove", epilog="Example: paddock key remove 'Example Labs'")
@reporting
def remove(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key's id or label.")],
    *,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Stop trusting a key. Plugins it signed stay installed and lose their verified standing."""
    from paddock.cli.consent import confirm
    from paddock.cli.opening import changing
    from paddock.plugins.trust import distrust_key, require_key

    with changing() as host:
        found = host.plugins.database.read(lambda tx: require_key(tx, key))
        confirm(f"Stop trusting {found.label} ({found.key_id})?", yes=yes, retype=f"paddock key remove {found.key_id}")
        row = distrust_key(host.plugins, found.key_id)
    if as_json:
        document({"key_id": row.key_id, "label": row.label, "removed": True})
    say(f"{styled('✓', 'green')} no longer trusting {row.label} ({row.key_id})")
