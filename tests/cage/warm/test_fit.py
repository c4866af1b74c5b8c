"""Which plugins a warm interpreter may run: those that cannot tell the difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paddock.cage.spec import BindMount, CageSpec, PythonScript, ResourceLimits
from paddock.cage.zygote.warm_start import add_plugin_trees, plan_warm_start, shadows_library
from paddock.net.egress import EgressGrant

TREES = "/data/plugins"
ROOT = f"{TREES}/notes/1.0.0"
LIBRARIES = BindMount("/usr/lib", "/usr/lib")
SPEC = CageSpec(
    cage_id="cage-1",
    plugin="notes",
    command=("/usr/bin/python3", f"{ROOT}/main.py"),
    directory=ROOT,
    environment={"LANG": "C.UTF-8", "HOME": ROOT, "PYTHONPATH": "/usr/lib/paddock", "API_KEY": "secret"},
    binds=(LIBRARIES, BindMount(ROOT, ROOT)),
    executables=("/usr/bin/python3",),
    python=PythonScript("/usr/bin/python3", f"{ROOT}/main.py"),
)


def test_the_zygote_of_a_plugin_has_nothing_of_the_plugin_in_its_cage() -> None:
    found = plan_warm_start(SPEC, TREES)
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
        binds=(LIBRARIES, BindMount(other, other)),
        network=(EgressGrant("example.com", 443),),
        limits=ResourceLimits(memory_bytes=1 << 20),
        python=PythonScript("/usr/bin/python3", f"{other}/main.py", ("--fast",)),
    )
    one, two = plan_warm_start(SPEC, TREES), plan_warm_start(second, TREES)
    assert one is not None
    assert two is not None
    assert one.key == two.key


@pytest.mark.parametrize(
    "changed",
    [
        {"python": PythonScript("/opt/python/bin/python3", f"{ROOT}/main.py")},
        {"binds": (*SPEC.binds, BindMount("/opt/more", "/opt/more"))},
        {"environment": {**SPEC.environment, "LANG": "C"}},
        {"environment": {**SPEC.environment, "TZ": "Asia/Tokyo"}},
        {"environment": {**SPEC.environment, "PYTHONPATH": "/usr/lib/other"}},
    ],
    ids=["interpreter", "libraries", "language", "time zone", "import path"],
)
def test_what_an_interpreter_reads_before_its_script_makes_another_zygote(changed: dict[str, object]) -> None:
    one, two = plan_warm_start(SPEC, TREES), plan_warm_start(replace(SPEC, **changed), TREES)  # pyright: ignore[reportArgumentType]
    assert one is not None
    assert two is not None
    assert one.key != two.key


@pytest.mark.parametrize(
    "changed",
    [
        {"python": None},
        {"binds": (LIBRARIES,)},
        {"binds": (*SPEC.binds, BindMount(f"{TREES}/mail/1.0.0", f"{TREES}/mail/1.0.0"))},
        {"binds": (*SPEC.binds, BindMount("/home/ann", "/home/ann", writable=True))},
        {"binds": (LIBRARIES, BindMount("/elsewhere", ROOT))},
        {"binds": (*SPEC.binds, BindMount("/srv/sdk", "/tmp/sdk"))},
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
    assert plan_warm_start(replace(SPEC, **changed), TREES) is None  # pyright: ignore[reportArgumentType]


def test_without_a_known_place_of_plugins_everything_is_started_cold() -> None:
    assert plan_warm_start(SPEC, None) is None


def test_the_zygote_of_a_root_daemon_does_not_see_any_plugins_files() -> None:
    found = plan_warm_start(SPEC, TREES)
    assert found is not None
    assert add_plugin_trees(found.zygote, TREES, visible=False).binds == (LIBRARIES,)
    assert BindMount(TREES, TREES) in add_plugin_trees(found.zygote, TREES, visible=True).binds


@pytest.mark.parametrize("name", ["json.py", "asyncio", "types.pyc", "_json.cpython-311-x86_64-linux-gnu.so"])
def test_a_file_that_python_would_import_instead_of_its_own_library_is_noticed(name: str) -> None:
    assert shadows_library(["main.py", name])


@pytest.mark.parametrize("name", ["main.py", "notes.py", "json.txt", "README.md", "paddock.yaml", "schemas"])
def test_other_files_shadow_nothing(name: str) -> None:
    assert not shadows_library([name])
