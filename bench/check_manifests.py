"""How many manifests of mixed dialects are checked in a second, against only parsing them and running their schema."""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml
from _manifests import sample
from _side_by_side import Report, alternate, options, timed

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

MANIFESTS = 1_000


def main() -> None:
    given = options(__doc__)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        packages: list[tuple[Path, str, str]] = []
        for number in range(MANIFESTS):
            manifest = sample(number)
            directory = Path(folder) / str(number)
            manifest.write(directory)
            packages.append((directory, manifest.file, manifest.form))
        size = sum((directory / file).stat().st_size for directory, file, _ in packages)
        times = alternate(
            {
                "paddock: read_package": _ours(packages),
                "parse with yaml.safe_load, and the schema": _floor(packages, yaml.safe_load),
                "parse with yaml's C loader, and the schema": _floor(packages, _c_loader),
            },
            rounds=2 if given.quick else 9,
        )
    report = Report(
        "check_manifests",
        given,
        f"{MANIFESTS:,} different sound packages of nine forms, {size / MANIFESTS:,.0f} bytes each on average, in "
        "one process, with the files in the page cache. Ours finds the manifest, tells its dialect, parses it with "
        "lines and bounds, checks it by its schema and by every rule, checks the schemas in it, and builds the model. "
        "The floors read one known file, parse it without lines or bounds (JSON and Python files by the standard "
        "library), and run the same schema.",
        ["what", "fastest", "median", "a second", "against the first floor"],
    )
    floor = times["parse with yaml.safe_load, and the schema"]
    for name, measured in times.items():
        speed = f"{MANIFESTS / measured.best:,.0f}"
        ratio = f"{measured.best / floor.best:.2f}×"
        report.row(name, f"{measured.best:.2f} s", f"{measured.median:.2f} s", speed, ratio)
    report.at_least("manifests a second", MANIFESTS / times["paddock: read_package"].best, 500)
    report.finish()


def _ours(packages: list[tuple[Path, str, str]]) -> Callable[[], float]:
    from paddock.manifest.read import read_package

    def check_all() -> None:
        for directory, _, form in packages:
            reading = read_package(directory)
            if not reading.valid or reading.form != form:
                raise SystemExit(f"the sample of form {form} is not sound: {reading.errors}")

    return lambda: timed(check_all)


def _floor(packages: list[tuple[Path, str, str]], load_yaml: Callable[[bytes], Any]) -> Callable[[], float]:
    schemas = SOURCE / "paddock" / "manifest" / "schemas"
    forms = {form for _, _, form in packages}
    validators = {
        form: jsonschema_rs.validator_for(json.loads((schemas / f"{form}.schema.json").read_bytes())) for form in forms
    }
    loaders: dict[str, Callable[[bytes], Any]] = {".yaml": load_yaml, ".json": json.loads, ".py": _python_literal}

    def check_all() -> None:
        for directory, file, form in packages:
            value = loaders[Path(file).suffix]((directory / file).read_bytes())
            if not validators[form].is_valid(value):
                raise SystemExit(f"the sample of form {form} does not fit its schema")

    return lambda: timed(check_all)


def _c_loader(data: bytes) -> Any:
    return yaml.load(data, Loader=yaml.CSafeLoader)


def _python_literal(data: bytes) -> Any:
    assignment = ast.parse(data).body[0]
    assert isinstance(assignment, ast.Assign)
    return ast.literal_eval(assignment.value)


if __name__ == "__main__":
    main()
