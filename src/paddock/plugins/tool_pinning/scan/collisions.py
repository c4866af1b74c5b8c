"""What is odd about one plugin's names and words beside those of others. Pure.

It goes both ways on purpose: of two that share a name nobody can say which one passes for the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from paddock.manifest.definition_flags import DefinitionFlag
from paddock.plugins.tool_pinning.normalize import TOOL
from paddock.plugins.tool_pinning.scan.confusables import name_skeleton
from paddock.plugins.tool_pinning.scan.definition_text import TextScanResult
from paddock.plugins.tool_pinning.scan.findings import PLUGIN, ScanFinding, deduplicate_findings

MIN_TYPO_NAME_CHARS = 5  # letters of a name that one letter more or less is told of
MAX_TYPO_NAME_CHARS = 64
MAX_TYPO_INDEXED_TOOLS = (
    500  # tools of one plugin that slips are known of: each is kept once for every letter that it has
)


@dataclass(frozen=True, slots=True)
class PluginNames:
    """What a plugin and its tools are called."""

    plugin: str
    title: str = ""
    tools: tuple[str, ...] = ()


class NameIndex:
    """The names of all installed plugins and of their tools, for looking up.

    Args:
        everybody: Each plugin once.
    """

    def __init__(self, everybody: Iterable[PluginNames]) -> None:
        self._tools: dict[str, set[str]] = {}  # by name: the plugins that have it
        self._plugins: set[str] = set()
        self._alike: dict[tuple[str, str], set[tuple[str, str]]] = {}  # by kind and shape: (plugin, name)
        for one in everybody:
            self._plugins.add(one.plugin)
            for shape in {*_typo_keys(one.plugin), *([name_skeleton(one.title)] if one.title else ())}:
                self._alike.setdefault((PLUGIN, shape), set()).add((one.plugin, one.plugin))
            for number, tool in enumerate(one.tools):
                self._tools.setdefault(tool, set()).add(one.plugin)
                for shape in _typo_keys(tool) if number < MAX_TYPO_INDEXED_TOOLS else {name_skeleton(tool)}:
                    self._alike.setdefault((TOOL, shape), set()).add((one.plugin, tool))

    def find_collisions(self, own: TextScanResult) -> tuple[ScanFinding, ...]:
        """What is odd about a plugin beside all others."""
        return deduplicate_findings((*self._find_similar_names(own), *self._find_foreign_mentions(own)))

    def _find_similar_names(self, own: TextScanResult) -> Iterator[ScanFinding]:
        for other in self._similar_names(own, PLUGIN, own.plugin, _typo_keys(own.plugin)):
            yield ScanFinding(
                PLUGIN, own.plugin, DefinitionFlag.LOOK_ALIKE, "name", "", f"can be taken for the plugin {other[0]}"
            )
        for other in self._similar_names(
            own, PLUGIN, own.plugin, {name_skeleton(own.title)} if own.title else set[str]()
        ):
            yield ScanFinding(
                PLUGIN,
                own.plugin,
                DefinitionFlag.LOOK_ALIKE,
                "title",
                own.title,
                f"can be taken for the plugin {other[0]}",
            )
        for tool in own.tools:
            others = sorted(self._tools.get(tool, set[str]()) - {own.plugin})
            if others:
                why = f"{others[0]} has a tool of this name too"
                yield ScanFinding(TOOL, tool, DefinitionFlag.SAME_NAME, "name", "", why)
            for plugin, name in self._similar_names(own, TOOL, tool, _typo_keys(tool)):
                why = f"can be taken for {name} of {plugin}"
                yield ScanFinding(TOOL, tool, DefinitionFlag.LOOK_ALIKE, "name", "", why)

    def _similar_names(self, own: TextScanResult, kind: str, name: str, shapes: set[str]) -> list[tuple[str, str]]:
        """Others' names that are not this one and pass for it; the first is enough to look at."""
        found = {one for shape in shapes for one in self._alike.get((kind, shape), ())}
        others = sorted(one for one in found if one[0] != own.plugin and one[1] != name)
        return [one for one in others if kind == PLUGIN or _differs_by_one_typo(one[1], name)][:1]

    def _find_foreign_mentions(self, own: TextScanResult) -> Iterator[ScanFinding]:
        mine = {own.plugin, *own.tools}
        for at in own.mentions.values():
            word = at.word
            tool = word if word in self._tools else word.replace("__", ".").rpartition(".")[2]
            owner = word.replace("__", ".").rpartition(".")[0]
            owners = self._tools.get(tool, set[str]())
            if word in mine or (tool == word and own.plugin in owners):
                continue  # its own, or one that it has too
            plain = tool == word and not (at.quoted or _looks_like_name(word))  # an ordinary word, and no more
            # Said in full it is the other's, also where this plugin has one of that name itself.
            named = set[str]() if plain else owners if tool == word else owners & {owner} - {own.plugin}
            if named:
                yield ScanFinding(
                    at.kind,
                    at.name,
                    DefinitionFlag.SHADOWING,
                    at.where,
                    at.words,
                    f"speaks of {tool} of {sorted(named)[0]}",
                )
            elif word in self._plugins and (at.quoted or _looks_like_name(word)):
                yield ScanFinding(
                    at.kind, at.name, DefinitionFlag.SHADOWING, at.where, at.words, f"speaks of the plugin {word}"
                )


def _looks_like_name(word: str) -> bool:
    return not word.isalpha() or not word.islower()


def _typo_keys(name: str) -> set[str]:
    """What a name and those that pass for it have in common: its skeleton, and that with any one letter left out."""
    whole = name_skeleton(name)
    if not MIN_TYPO_NAME_CHARS <= len(whole) <= MAX_TYPO_NAME_CHARS:
        return {whole}
    return {whole, *(whole[:at] + whole[at + 1 :] for at in range(len(whole)))}


def _differs_by_one_typo(one: str, other: str) -> bool:
    """Whether two names that have a shape in common differ in one letter at most, and not in a number alone."""
    a, b = name_skeleton(one), name_skeleton(other)
    if a == b:
        return True
    if len(a) == len(b):
        differ = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
        return len(differ) == 1 and not (differ[0][0].isdigit() or differ[0][1].isdigit())
    return abs(len(a) - len(b)) == 1
