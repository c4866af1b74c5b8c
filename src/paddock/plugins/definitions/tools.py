"""What a plugin can be asked to do, as people see it: what each callable says, takes and changes, and how it stands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.core.errors import Problem
from paddock.core.schema import compile_schema
from paddock.core.schema_walk import as_object
from paddock.manifest.effects_of import effects_of
from paddock.manifest.model import CallableSpec, Form, Manifest
from paddock.plugins.definitions.examining import TOOL
from paddock.plugins.definitions.flagging.hints import Hint
from paddock.plugins.definitions.flagging.surveying import Survey, survey_plugin
from paddock.plugins.definitions.offering import overlaid
from paddock.plugins.definitions.parameters import parameters_of, visible
from paddock.plugins.definitions.rows import DefinitionRow, Texts, all_texts, definitions_of, was_met
from paddock.plugins.definitions.standing import Standing
from paddock.plugins.local_copy import local_root
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.registry import manifest_of, pinned_version_missing, require_plugin, schema_value
from paddock.plugins.rows import VersionRow, find_version
from paddock.plugins.runtimes.envelopes import checked_part, speaks_mcp
from paddock.store.database import Transaction

DECLARED = "declared"  # its package says so, which somebody consented to
UNMET = "unmet"  # its package says so, and its server never ran


@dataclass(frozen=True, slots=True)
class Tools:
    """What is on record of one plugin's callables. `known` is false for a server that never ran.

    What they say is worked out when it is asked for, and no sooner: a server may list a great deal, and the store must
    not wait for that.
    """

    name: str
    known: bool
    manifest: Manifest
    root: Path
    rows: tuple[DefinitionRow, ...] = ()
    texts: Mapping[str, Texts] | None = None  # of a server's tools, by name
    survey: Survey | None = None  # what it says to models, and beside whom

    def to_value(self) -> dict[str, Any]:
        hints = self.hints()
        of_all = [hint.to_value() for hint in hints if hint.kind != TOOL]
        return {"name": self.name, "known": self.known, "tools": list(self.values(hints)), "hints": of_all}

    def hints(self) -> tuple[Hint, ...]:
        """What is odd about its words."""
        return self.survey.hints() if self.survey is not None else ()

    def values(self, hints: Iterable[Hint] = ()) -> Iterator[dict[str, Any]]:
        """Each callable as data, in the order in which they are declared or by name, with what is odd about it."""
        odd: dict[str, list[dict[str, Any]]] = {}
        for hint in hints:
            if hint.kind == TOOL:
                odd.setdefault(hint.name, []).append(hint.to_value())
        for value in self._values():
            yield value | {"hints": odd.get(value["name"], [])}

    def _values(self) -> Iterator[dict[str, Any]]:
        if self.texts is None or not self.known:
            standing = DECLARED if self.texts is None else UNMET
            for spec in self.manifest.callables:
                yield self._value(spec, standing)
            return
        for row in self.rows:
            yield self._listed(row, self.texts.get(row.name, Texts("", "")))

    def accepted(self) -> tuple[CallableSpec, ...]:
        """Those of a server that may be called, with the schemas that it gives."""
        texts = self.texts or {}
        usable = [row for row in self.rows if row.standing is Standing.ACCEPTED and row.name in texts]
        read = (_read(json.loads(texts[row.name].accepted)) for row in usable)
        return tuple(spec for spec in read if spec is not None)

    def broken_by(self, name: str, result: Any) -> list[Problem]:
        """What is wrong with an answer of a callable, by what is promised of it; nothing where nothing is."""
        schema = next((one["output_schema"] for one in self.values() if one["name"] == name), None)
        return [] if schema is None else compile_schema(schema).errors(checked_part(self.manifest, result))

    def _listed(self, row: DefinitionRow, texts: Texts) -> dict[str, Any]:
        """A server's tool: what it says now, where that waits for somebody; otherwise what was accepted."""
        text = texts.waiting or texts.accepted
        raw: Any = json.loads(text) if text else {}
        spec = _read(raw)
        if spec is None:  # nobody can use it; what it says is shown all the same
            said = (as_object(raw) or {}).get("description")
            spec = CallableSpec(row.name, Form.TOOL, said if isinstance(said, str) else "")
        declared = {one.name: one for one in self.manifest.callables}
        spec = overlaid(spec, declared.get(row.name))
        return self._value(spec, row.standing.value, row.name, row.reason, row.accepted_by)

    def _value(
        self, spec: CallableSpec, standing: str, name: str = "", reason: str = "", accepted_by: str = ""
    ) -> dict[str, Any]:
        given = schema_value(spec.input_schema, self.root) if spec.input_schema is not None else None
        gives = schema_value(spec.output_schema, self.root) if spec.output_schema is not None else None
        alone = spec.form is Form.WHOLE and spec is self.manifest.whole
        return {
            "name": name or spec.name,
            "call": self.name if alone else f"{self.name}.{name or spec.name}",
            "title": visible(spec.title),
            "description": visible(spec.description),
            "standing": standing,
            "reason": reason,
            "accepted_by": accepted_by,
            "effects": [effect.value for effect in effects_of(self.manifest, spec)],
            "recovery": spec.recovery,
            "probe": spec.probe,
            "requires_approval": spec.requires_approval,
            "required_scopes": list(spec.required_scopes),
            "parameters": [one.to_value() for one in parameters_of(given)],
            "input_schema": given,
            "output_schema": gives,
        }


def tools_of(store: PluginStore, plugin: str) -> Tools:
    """What a plugin can be asked to do.

    Raises:
        NotFound: it is not installed.
        PluginError: the version it is pinned to was removed.
    """

    def unit(tx: Transaction) -> Tools:
        found = require_plugin(tx, plugin)
        current = find_version(tx, found.name, found.current_version)
        if current is None:
            raise pinned_version_missing(found)
        return recorded_tools(tx, store, current, manifest_of(current))

    return store.database.read(unit)


def recorded_tools(tx: Transaction, store: PluginStore, version: VersionRow, manifest: Manifest) -> Tools:
    """The same of one version of it."""
    root = local_root(store, version)
    survey = survey_plugin(tx, store.tenant, manifest, root)
    if not speaks_mcp(manifest):
        return Tools(version.plugin, True, manifest, root, survey=survey)
    rows = definitions_of(tx, store.tenant, version.plugin)
    tools = tuple(row for row in rows if row.kind == TOOL)
    known = bool(rows) or was_met(tx, store.tenant, version.plugin)
    texts = all_texts(tx, store.tenant, version.plugin, TOOL)
    return Tools(version.plugin, known, manifest, root, tools, texts, survey)


def _read(raw: Any) -> CallableSpec | None:
    # Imported here: a plugin that is no server needs nobody who knows how those speak.
    from paddock.plugins.runtimes.mcp.tools import judge_tool

    found = judge_tool(raw)
    return found if isinstance(found, CallableSpec) else None
