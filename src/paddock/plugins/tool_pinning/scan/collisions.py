"""Finds names and texts of one plugin that collide with those of others. Pure.

It reports both plugins on purpose: of two that share a name it is unknown which one imitates the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from paddock.manifest.definition_flags import DefinitionFlag
from paddock.plugins.tool_pinning.normalize import TOOL
from paddock.plugins.tool_pinning.scan.confusables import name_skeleton
from paddock.plugins.tool_pinning.scan.definition_text import TextScanResult
from paddock.plugins.tool_pinning.scan.findings import PLUGIN, ScanFinding, deduplicate_findings

MIN_TYPO_NAME_CHARS = 5  # shorter names are not compared for typos
MAX_TYPO_NAME_CHARS = 64
MAX_TYPO_INDEXED_TOOLS = 500  # tools of one plugin; each is indexed once for every letter of its name


class PluginNames(Struct, frozen=True):
    """The names of a plugin and its tools."""

    plugin: str
    title: str = ""
    tools: tuple[str, ...] = ()


class NameIndex:
    """An index of the names of all installed plugins and their tools.

    Args:
        installed_names: Each plugin once.
    """

    def __init__(self, installed_names: Iterable[PluginNames]) -> None:
        self._tools: dict[str, set[str]] = {}  # plugins by tool name
        self._plugins: set[str] = set()
        self._alike: dict[tuple[str, str], set[tuple[str, str]]] = {}  # (plugin, name) by kind and typo key
        for names in installed_names:
            self._plugins.add(names.plugin)
            for typo_key in {*_typo_keys(names.plugin), *([name_skeleton(names.title)] if names.title else ())}:
                self._alike.setdefault((PLUGIN, typo_key), set()).add((names.plugin, names.plugin))
            for index, tool in enumerate(names.tools):
                self._tools.setdefault(tool, set()).add(names.plugin)
                for typo_key in _typo_keys(tool) if index < MAX_TYPO_INDEXED_TOOLS else {name_skeleton(tool)}:
                    self._alike.setdefault((TOOL, typo_key), set()).add((names.plugin, tool))

    def find_collisions(self, scan: TextScanResult) -> tuple[ScanFinding, ...]:
        """Return the findings for a plugin compared with all others."""
        return deduplicate_findings((*self._find_similar_names(scan), *self._find_foreign_mentions(scan)))

    def _find_similar_names(self, scan: TextScanResult) -> Iterator[ScanFinding]:
        for other in self._similar_names(scan, PLUGIN, scan.plugin, _typo_keys(scan.plugin)):
            yield ScanFinding(
                PLUGIN, scan.plugin, DefinitionFlag.LOOK_ALIKE, "name", "", f"can be taken for the plugin {other[0]}"
            )
        for other in self._similar_names(
            scan, PLUGIN, scan.plugin, {name_skeleton(scan.title)} if scan.title else set[str]()
        ):
            yield ScanFinding(
                PLUGIN,
                scan.plugin,
                DefinitionFlag.LOOK_ALIKE,
                "title",
                scan.title,
                f"can be taken for the plugin {other[0]}",
            )
        for tool in scan.tools:
            others = sorted(self._tools.get(tool, set[str]()) - {scan.plugin})
            if others:
                reason = f"{others[0]} has a tool of this name too"
                yield ScanFinding(TOOL, tool, DefinitionFlag.SAME_NAME, "name", "", reason)
            for plugin, name in self._similar_names(scan, TOOL, tool, _typo_keys(tool)):
                reason = f"can be taken for {name} of {plugin}"
                yield ScanFinding(TOOL, tool, DefinitionFlag.LOOK_ALIKE, "name", "", reason)

    def _similar_names(self, scan: TextScanResult, kind: str, name: str, typo_keys: set[str]) -> list[tuple[str, str]]:
        """Return another plugin's similar name that differs from this one; the first is enough."""
        candidates = {one for typo_key in typo_keys for one in self._alike.get((kind, typo_key), ())}
        others = sorted(one for one in candidates if one[0] != scan.plugin and one[1] != name)
        return [one for one in others if kind == PLUGIN or _differs_by_one_typo(one[1], name)][:1]

    def _find_foreign_mentions(self, scan: TextScanResult) -> Iterator[ScanFinding]:
        own_names = {scan.plugin, *scan.tools}
        for mention in scan.mentions.values():
            word = mention.word
            tool = word if word in self._tools else word.replace("__", ".").rpartition(".")[2]
            owner = word.replace("__", ".").rpartition(".")[0]
            owners = self._tools.get(tool, set[str]())
            if word in own_names or (tool == word and scan.plugin in owners):
                continue  # its own tool, or one that it also has
            # not recognisable as a name
            ordinary_word = tool == word and not (mention.quoted or _looks_like_name(word))
            # A full name means the other plugin's tool, even if this plugin has one of that name.
            mentioned_owners = (
                set[str]() if ordinary_word else owners if tool == word else owners & {owner} - {scan.plugin}
            )
            if mentioned_owners:
                reason = f"speaks of {tool} of {sorted(mentioned_owners)[0]}"
            elif word in self._plugins and (mention.quoted or _looks_like_name(word)):
                reason = f"speaks of the plugin {word}"
            else:
                continue
            shadowing = DefinitionFlag.SHADOWING
            yield ScanFinding(mention.kind, mention.name, shadowing, mention.where, mention.words, reason)


def _looks_like_name(word: str) -> bool:
    return not word.isalpha() or not word.islower()


def _typo_keys(name: str) -> set[str]:
    """Return the keys that similar names share: the skeleton, and the skeleton with any one letter left out."""
    skeleton = name_skeleton(name)
    if not MIN_TYPO_NAME_CHARS <= len(skeleton) <= MAX_TYPO_NAME_CHARS:
        return {skeleton}
    return {skeleton, *(skeleton[:index] + skeleton[index + 1 :] for index in range(len(skeleton)))}


def _differs_by_one_typo(name: str, other: str) -> bool:
    """Whether two names that share a typo key differ in one letter at most, and not only in a digit."""
    first, second = name_skeleton(name), name_skeleton(other)
    if first == second:
        return True
    if len(first) == len(second):
        differences = [(x, y) for x, y in zip(first, second, strict=True) if x != y]
        return len(differences) == 1 and not (differences[0][0].isdigit() or differences[0][1].isdigit())
    return abs(len(first) - len(second)) == 1
