"""Which plugins a warm interpreter may run: those that cannot tell the difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paddock.cage.spec import Bind, CageSpec, Limits, PythonMain, Reach
from paddock.cage.warm.fit import fit, shadows_library, with_trees

TREES = "/data/plugins"
ROOT = f"{TREES}/notes/1.0.0"
LIBRARIES = Bind("/usr/lib", "/usr/lib")
SPEC = CageSpec(
    cage_id="cage-1",
    plugin="notes",
    command=("/usr/bin/python3", f"{ROOT}/main.py"),
    directory=ROOT,
    environment={"LANG": "C.UTF-8", "HOME": ROOT, "PYTHONPATH": "/usr/lib/paddock", "API_KEY": "secret"},
    binds=(LIBRARIES, Bind(ROOT, ROOT)),
    executables=("/usr/bin/python3",),
    python=PythonMain("/usr/bin/python3", f"{ROOT}/main.py"),
)


def test_the_zygote_of_a_plugin_has_nothing_of_the_plugin_in_its_cage() -> None:
    found = fit(SPEC, TREES)
    assert found is not None
    assert found.root == ROOT
    assert found.zygote.binds == (LIBRARIES,)
    assert found.zygote.environment == {"LANG": "C.UTF-8", "PYTHONPATH": "/usr/lib/paddock"}
    assert ROOT not in repr(found.zygote)
    assert "secret" not in repr(found)


def test_two_plugins_that_differ_in_what_is_their_own_come_from_one_zygote() -> None:
    other = f"{TREES}/mail/2.0.0"
    second = replace(
        SPEC,
        cage_id="cage-2",
        directory=other,
        environment={**SPEC.environment, "HOME": other, "API_KEY": "another"},
        binds=(LIBRARIES, Bind(other, other)),
        network=(Reach("example.com", 443),),
        limits=Limits(memory_bytes=1 << 20),
        python=PythonMain("/usr/bin/python3", f"{other}/main.py", ("--fast",)),
    )
    one, two = fit(SPEC, TREES), fit(second, TREES)
    assert one is not None
    assert two is not None
    assert one.kind == two.kind


@pytest.mark.parametrize(
    "changed",
    [
        {"python": PythonMain("/opt/python/bin/python3", f"{ROOT}/main.py")},
        {"binds": (*SPEC.binds, Bind("/opt/more", "/opt/more"))},
        {"environment": {**SPEC.environment, "LANG": "C"}},
        {"environment": {**SPEC.environment, "TZ": "Asia/Tokyo"}},
        {"environment": {**SPEC.environment, "PYTHONPATH": "/usr/lib/other"}},
    ],
    ids=["interpreter", "libraries", "language", "time zone", "import path"],
)
def test_what_an_interpreter_reads_before_its_script_makes_another_zygote(changed: dict[str, object]) -> None:
    one, two = fit(SPEC, TREES), fit(replace(SPEC, **changed), TREES)  # pyright: ignore[reportArgumentType]
    assert one is not None
    assert two is not None
    assert one.kind != two.kind


@pytest.mark.req("G-38")
@pytest.mark.parametrize(
    "changed",
    [
        {"python": None},
        {"binds": (LIBRARIES,)},
        {"binds": (*SPEC.binds, Bind(f"{TREES}/mail/1.0.0", f"{TREES}/mail/1.0.0"))},
        {"binds": (*SPEC.binds, Bind("/home/ann", "/home/ann", writable=True))},
        {"binds": (LIBRARIES, Bind("/elsewhere", ROOT))},
        {"binds": (*SPEC.binds, Bind("/srv/sdk", "/tmp/sdk"))},
        {"covers": ("/usr/lib/hidden",)},
        {"environment": {**SPEC.environment, "PYTHONSTARTUP": f"{ROOT}/start.py"}},
        {"environment": {**SPEC.environment, "PYTHONPATH": f"/usr/lib/paddock:{ROOT}"}},
        {"environment": {**SPEC.environment, "PYTHONPATH": f"/usr/..{ROOT}"}},
        {"environment": {**SPEC.environment, "PYTHONPATH": "lib"}},
    ],
    ids=[
        "no script",
        "files elsewhere",
        "files of another plugin",
        "something to write",
        "files under another name",
        "something where a copy has its own",
        "something covered",
        "a variable we do not foresee",
        "imports from its own files",
        "imports from its own files, disguised",
        "imports from where it stands",
    ],
)
def test_a_plugin_for_which_a_warm_start_could_differ_or_reach_further_is_started_cold(
    changed: dict[str, object],
) -> None:
    assert fit(replace(SPEC, **changed), TREES) is None  # pyright: ignore[reportArgumentType]


def test_without_a_known_place_of_plugins_everything_is_started_cold() -> None:
    assert fit(SPEC, None) is None


def test_the_zygote_of_a_root_daemon_does_not_see_any_plugins_files() -> None:
    found = fit(SPEC, TREES)
    assert found is not None
    assert with_trees(found.zygote, TREES, seen=False).binds == (LIBRARIES,)
    assert Bind(TREES, TREES) in with_trees(found.zygote, TREES, seen=True).binds


@pytest.mark.parametrize("name", ["json.py", "asyncio", "types.pyc", "_json.cpython-311-x86_64-linux-gnu.so"])
def test_a_file_that_python_would_import_instead_of_its_own_library_is_noticed(name: str) -> None:
    assert shadows_library(["main.py", name])


@pytest.mark.parametrize("name", ["main.py", "notes.py", "json.txt", "README.md", "paddock.yaml", "schemas"])
def test_other_files_shadow_nothing(name: str) -> None:
    assert not shadows_library([name])
