"""References in what a plugin runs with, filled when it starts. Pure.

`${user_config.NAME}` and `${__dirname}` may stand anywhere in it. A word of a command or a variable may also begin
with `config:/`, which stands for the plugin's own folder there as it does in capabilities.

Only here, at the last moment, do values that a person typed into `local.toml` stand in a command, a variable or a
header; the manifest that was consented to, recorded and shown holds the reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from paddock.config.variables import SECRET_PREFIX
from paddock.core.errors import Invalid, Problem
from paddock.manifest.model import CommandRuntime, Manifest, PythonRuntime, RemoteRuntime
from paddock.plugins.store.store import PluginStore
from paddock.secrets.requirements import SecretScope
from paddock.secrets.vault import read_secret
from paddock.secrets.wrapping_keys import WrappingKeys

_REFERENCE = re.compile(r"\$\{(?:user_config\.(?P<field>[^}]+)|(?P<folder>__dirname))\}")
_OWN_FOLDER_SCHEME = "config:"
_OWN_FOLDER_PREFIX = f"{_OWN_FOLDER_SCHEME}/"


def substitute_references(manifest: Manifest, config: Mapping[str, Any], root: str, own_folder: str) -> Manifest:
    """The manifest with every reference in its runtime replaced.

    Args:
        manifest: As it was consented to.
        config: The plugin's configuration, in the clear.
        root: Where its files are.
        own_folder: Where it keeps files of its own, if it may.

    Raises:
        Invalid: it refers to a field that has no value; carries every such field.
    """
    missing: dict[str, Problem] = {}

    def value_of(match: re.Match[str]) -> str:
        field = match["field"]
        if field is None:
            return root
        value = config.get(field)
        if value is None:
            hint = f"paddock plugin configure {manifest.name}"
            missing[field] = Problem(field, "has no value, and what the plugin runs with refers to it", hint)
            return ""
        return str(value).lower() if isinstance(value, bool) else str(value)

    def text(given: str) -> str:
        return _REFERENCE.sub(value_of, given)

    def place(given: str) -> str:
        """A text that may begin with the plugin's own folder. What a person configured means itself."""
        return (
            own_folder + text(given.removeprefix(_OWN_FOLDER_SCHEME))
            if given.startswith(_OWN_FOLDER_PREFIX)
            else text(given)
        )

    def words(given: str) -> list[str]:
        """A word of a command; one that is nothing but a field with several values becomes as many words."""
        whole = _REFERENCE.fullmatch(given)
        value = config.get(whole["field"]) if whole and whole["field"] else None
        return [str(one) for one in cast("list[Any]", value)] if isinstance(value, list) else [place(given)]

    def places(given: Mapping[str, str]) -> dict[str, str]:
        return {name: place(value) for name, value in given.items()}

    runtime = manifest.runtime
    match runtime:
        case CommandRuntime():
            command = tuple(word for given in runtime.command for word in words(given))
            runtime = replace(runtime, command=command, env=places(runtime.env))
        case PythonRuntime():
            runtime = replace(runtime, env=places(runtime.env))
        case RemoteRuntime():
            headers = {name: text(value) for name, value in runtime.headers.items()}
            runtime = replace(runtime, url=text(runtime.url), headers=headers)
        case None:
            pass
    if missing:
        raise Invalid(
            f"the configuration of {manifest.name} is incomplete", list(missing.values()), code="config_invalid"
        )
    return replace(manifest, runtime=runtime)


@dataclass(frozen=True, slots=True)
class SecretEnvironment(Mapping[str, str]):
    """Variables by name, and the tenant's own secrets by `secret:NAME`; no person's, for it starts for all of them.

    Each is looked up when it is asked for, and none is kept. Blocks.
    """

    environ: Mapping[str, str]
    store: PluginStore
    sealed_with: WrappingKeys

    def __getitem__(self, name: str) -> str:
        if not name.startswith(SECRET_PREFIX):
            return self.environ[name]
        wanted = name.removeprefix(SECRET_PREFIX)
        database, tenant = self.store.database, self.store.tenant
        found = read_secret(database, self.sealed_with, tenant, None, wanted, (SecretScope.SYSTEM,))
        if found is None:
            raise KeyError(name)
        return found.reveal()

    def __iter__(self) -> Iterator[str]:
        return iter(self.environ)

    def __len__(self) -> int:
        return len(self.environ)
