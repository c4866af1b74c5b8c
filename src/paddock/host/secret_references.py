"""`${secret:NAME}` in `local.toml`: the environment with the secrets of a tenant beside its variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from paddock.config.variables import SECRET
from paddock.plugins.plugin_store import PluginStore
from paddock.secrets.declared import Scope
from paddock.secrets.keys import Keys
from paddock.secrets.vault import look_up


@dataclass(frozen=True, slots=True)
class WithSecrets(Mapping[str, str]):
    """Variables by name, and the tenant's own secrets by `secret:NAME`; no person's, for it starts for all of them.

    Each is looked up when it is asked for, and none is kept. Blocks.
    """

    environ: Mapping[str, str]
    store: PluginStore
    sealed_with: Keys

    def __getitem__(self, name: str) -> str:
        if not name.startswith(SECRET):
            return self.environ[name]
        wanted = name.removeprefix(SECRET)
        database, tenant = self.store.database, self.store.tenant
        found = look_up(database, self.sealed_with, tenant, None, wanted, (Scope.SYSTEM,))
        if found is None:
            raise KeyError(name)
        return found.reveal()

    def __iter__(self) -> Iterator[str]:
        return iter(self.environ)

    def __len__(self) -> int:
        return len(self.environ)
