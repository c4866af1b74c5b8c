"""What the host tells a worker before anything else: whose code to run, and in which form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

CONFIG_VARIABLE = "PADDOCK_WORKER"


class WorkerConfig(NamedTuple):
    """What to run.

    Attributes:
        name: The plugin, as in its manifest.
        version: As in its manifest.
        dialect: `shu`, `kernel`, or any other, whose entry points are functions of ours.
        kind: `plugin`, or for the Kernel's `agent`, `operator`, `tool` or `adapter`.
        root: Where its files are.
        entrypoints: What is called -> `package.module:Attribute`.
        capabilities: What a person granted, as texts.
        site: Further directories to import from: the plugin's own environment, where it has one.
        environment: Variables that its code is to see, where they are not there already.
    """

    name: str
    version: str
    dialect: str
    kind: str
    root: str
    entrypoints: dict[str, str]
    capabilities: tuple[str, ...] = ()
    site: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}


def read_worker_config(text: str) -> WorkerConfig:
    """The orders from the text of the variable.

    Raises:
        ValueError: they are not what the host writes.
    """
    given = json.loads(text)
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    known = {name: fields[name] for name in WorkerConfig._fields if name in fields}
    for name in ("capabilities", "site"):
        known[name] = tuple(known.get(name, ()))
    try:
        return WorkerConfig(**known)
    except TypeError as error:
        raise ValueError(f"the orders are incomplete: {error}") from None
