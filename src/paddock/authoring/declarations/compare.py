"""Compares the declarations of a program with its manifest: every difference, and the change that removes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import Struct

from paddock.authoring.declarations.description import DescribedCallable, ProgramDescription
from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.manifest.model import CallableForm, CallableSpec, Manifest, Schema
from paddock.manifest.syntax.yaml_editor import EntryChange

_FORMS = {"tools": CallableForm.TOOL, "methods": CallableForm.METHOD}
_MISSING: Any = object()
_UNORDERED_KEYWORDS = ("required", "enum", "type")  # lists whose order means nothing

LoadSchema = Callable[[Schema | None], Any]


class Comparison(Struct, frozen=True):
    """The differences between a program and its manifest.

    Attributes:
        problems: Every difference in words, with its path in the manifest.
        changes: The changes of the manifest's entries.
        version: The version to write; None if it is right.
        refusals: Declarations that cannot be written, because neither side says enough.
    """

    problems: tuple[Problem, ...] = ()
    changes: tuple[EntryChange, ...] = ()
    version: str | None = None
    refusals: tuple[Problem, ...] = ()


def compare_declarations(manifest: Manifest, program: ProgramDescription, load_schema: LoadSchema) -> Comparison:
    """Compare a native manifest with what its program says.

    Args:
        manifest: The manifest.
        program: The program's description of itself.
        load_schema: Returns a schema, from its file if the manifest names one.
    """
    problems: list[Problem] = []
    changes: list[EntryChange] = []
    refusals: list[Problem] = []
    if program.name != manifest.name:
        message = f"is {manifest.name}, and the program calls itself {printable(program.name, 80)}"
        refusals.append(Problem("name", message, "use the same name in both", "sync.name"))
    version = program.version if program.version not in (None, manifest.version) else None
    if version is not None:
        message = f"is {manifest.version}, and the program states {printable(version, 80)}"
        problems.append(Problem("version", message, code="sync.version"))
    for section in program.sections:
        specs = [spec for spec in manifest.callables if spec.form is _FORMS[section]]
        served = {one.name: one for one in program.callables if one.section == section}
        for index, spec in enumerate(specs):
            path = f"{section}[{index}]"
            if (described := served.get(spec.name)) is None:
                message = f"{spec.name} is not served by the program"
                problems.append(Problem(path, message, code="sync.not_served"))
                changes.append(EntryChange(section, spec.name, None))
                continue
            different = _differing_fields(spec, described, load_schema)
            problems += [problem for key in different for problem in _field_problems(path, key, *different[key])]
            if different:
                changes.append(EntryChange(section, spec.name, {key: new for key, (_, new) in different.items()}))
        declared = {spec.name for spec in specs}
        for described in (one for name, one in served.items() if name not in declared):
            name = printable(described.name, 80)
            problems.append(Problem(section, f"{name} is not declared, and the program serves it", code="sync.missing"))
            changes.append(EntryChange(section, described.name, described.fields()))
            refusals += _missing_declarations(described)
    if refusals:
        problems = [*(one for one in refusals if one not in problems), *problems]
    return Comparison(tuple(problems), tuple(changes), version, tuple(refusals))


def _differing_fields(
    spec: CallableSpec, described: DescribedCallable, load_schema: LoadSchema
) -> dict[str, tuple[Any, Any]]:
    """Return the fields that the program declares otherwise: what the manifest says, and what the program says."""
    written = {
        "description": spec.description,
        "input_schema": _MISSING if spec.input_schema is None else load_schema(spec.input_schema),
        "output_schema": _MISSING if spec.output_schema is None else load_schema(spec.output_schema),
    }
    pairs = {key: (written[key], new) for key, new in described.fields().items()}
    return {key: (old, new) for key, (old, new) in pairs.items() if _comparable(old) != _comparable(new)}


def _comparable(value: Any, keyword: str = "") -> Any:
    """Return a schema without differences that mean nothing: the order of some lists. `1` and `true` stay apart."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        return {key: _comparable(one, key) for key, one in fields.items()}
    if isinstance(value, list | tuple):
        items = [_comparable(one) for one in cast("list[Any]", value)]
        return sorted(items, key=repr) if keyword in _UNORDERED_KEYWORDS else items
    return ("bool", value) if isinstance(value, bool) else value


def _field_problems(path: str, key: str, written: Any, stated: Any) -> Iterable[Problem]:
    where = f"{path}.{key}"
    if written is _MISSING:
        return [Problem(where, "is not in the manifest, and the program declares it", code="sync.differs")]
    if key == "description":
        message = f"is {_quoted(written)}, and the program says {_quoted(stated)}"
        return [Problem(where, message, code="sync.differs")]
    return [
        Problem(f"{where}{inner}", message, code="sync.differs") for inner, message in _differences(written, stated)
    ]


def _differences(written: Any, stated: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths at which two schemas differ, with the difference in words."""
    if isinstance(written, Mapping) and isinstance(stated, Mapping):
        ours, theirs = cast("Mapping[str, Any]", written), cast("Mapping[str, Any]", stated)
        for key in dict.fromkeys([*ours, *theirs]):
            inner = f"{path}.{printable(key, 80)}"
            if key not in ours:
                yield inner, f"is missing, and the program says {_quoted(theirs[key])}"
            elif key not in theirs:
                yield inner, f"is {_quoted(ours[key])}, and the program does not say it"
            elif _comparable(ours[key], key) != _comparable(theirs[key], key):
                yield from _differences(ours[key], theirs[key], inner)
    else:
        yield path, f"is {_quoted(written)}, and the program says {_quoted(stated)}"


def _missing_declarations(described: DescribedCallable) -> list[Problem]:
    """Return what a new entry needs and the program does not say."""
    name = printable(described.name, 80)
    problems: list[Problem] = []
    if described.input_schema is None:
        problems.append(
            Problem(
                described.section,
                f"{name} states no types for its parameters",
                "name its parameters with their types, or write its input_schema into the manifest",
                "sync.untyped",
            )
        )
    if described.description is None:
        problems.append(
            Problem(
                described.section,
                f"{name} has no description",
                "write a docstring in Python, or a `description` beside the schemas in TypeScript",
                "sync.undescribed",
            )
        )
    return problems


def _quoted(value: Any) -> str:
    import json

    return printable(json.dumps(value, ensure_ascii=False, default=str), 100)
