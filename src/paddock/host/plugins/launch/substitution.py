"""Substitutes references in a plugin's runtime settings when it starts. Pure, except for `SecretEnvironment`.

`${user_config.NAME}` and `${__dirname}` may occur anywhere. An argument of a command or a variable may also begin
with `config:/`, the plugin's own folder, as in capabilities; so may a configured value that it consists of.

Values from `local.toml` enter a command, a variable or a header only here, at the last moment; the manifest that is
consented to, recorded and displayed holds the references.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from msgspec.structs import replace

from paddock.config.variables import SECRET_PREFIX
from paddock.core.action import Action
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
    """Replace every reference in the manifest's runtime.

    Args:
        manifest: The manifest as consented to.
        config: The plugin's configuration, in plain text.
        root: The directory of its files.
        own_folder: The directory for its own files.

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
            configure = Action.of("plugin.configure", plugin=manifest.name, field=field)
            missing[field] = Problem(field, "has no value, but the plugin's command refers to it", action=configure)
            return ""
        return str(value).lower() if isinstance(value, bool) else str(value)

    def substitute(template: str) -> str:
        return _REFERENCE.sub(value_of, template)

    def substitute_path(template: str) -> str:
        """Substitute a text that may begin with `config:/`, written in the manifest or configured by a person."""
        return in_own_folder(substitute(template))

    def in_own_folder(text: str) -> str:
        return own_folder + text.removeprefix(_OWN_FOLDER_SCHEME) if text.startswith(_OWN_FOLDER_PREFIX) else text

    def substitute_argument(template: str) -> list[str]:
        """Substitute an argument of a command; one that is only a reference to a list becomes one argument per item."""
        reference = _REFERENCE.fullmatch(template)
        value = config.get(reference["field"]) if reference and reference["field"] else None
        return (
            [in_own_folder(str(item)) for item in cast("list[Any]", value)]
            if isinstance(value, list)
            else [substitute_path(template)]
        )

    def substitute_variables(variables: Mapping[str, str]) -> dict[str, str]:
        return {name: substitute_path(value) for name, value in variables.items()}

    runtime = manifest.runtime
    match runtime:
        case CommandRuntime():
            command = tuple(word for argument in runtime.command for word in substitute_argument(argument))
            runtime = replace(runtime, command=command, env=substitute_variables(runtime.env))
        case PythonRuntime():
            runtime = replace(runtime, env=substitute_variables(runtime.env))
        case RemoteRuntime():
            headers = {name: substitute(value) for name, value in runtime.headers.items()}
            runtime = replace(runtime, url=substitute(runtime.url), headers=headers)
        case None:
            pass
    if missing:
        raise Invalid(
            f"the configuration of {manifest.name} is incomplete", list(missing.values()), code="config_invalid"
        )
    return replace(manifest, runtime=runtime)


@dataclasses.dataclass(frozen=True, slots=True)
class SecretEnvironment(Mapping[str, str]):
    """Environment variables by name, and the tenant's own secrets as `secret:NAME`.

    Secrets of persons are excluded: the process serves all of the tenant's people. Each value is looked up when it is
    read, and none is kept. Blocking.
    """

    environ: Mapping[str, str]
    store: PluginStore
    wrapping_keys: WrappingKeys

    def __getitem__(self, name: str) -> str:
        if not name.startswith(SECRET_PREFIX):
            return self.environ[name]
        secret_name = name.removeprefix(SECRET_PREFIX)
        database, tenant = self.store.database, self.store.tenant
        secret = read_secret(database, self.wrapping_keys, tenant, None, secret_name, (SecretScope.SYSTEM,))
        if secret is None:
            raise KeyError(name)
        return secret.reveal()

    def __iter__(self) -> Iterator[str]:
        return iter(self.environ)

    def __len__(self) -> int:
        return len(self.environ)
