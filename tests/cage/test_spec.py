"""A spec crosses the socket to the warden and is the same on the other side."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cage.spec import BindMount, CageSpec, PythonScript, ResourceLimits, SymbolicLink
from paddock.net.egress import EgressGrant

texts = st.text(max_size=20)
paths = texts.map(lambda text: "/" + text)
sizes = st.integers(0, 2**50)
limits = st.builds(ResourceLimits, sizes, sizes, sizes, st.none() | st.floats(0.1, 64), sizes, sizes, sizes)
specs = st.builds(
    CageSpec,
    cage_id=texts,
    plugin=texts,
    command=st.lists(texts, max_size=4).map(tuple),
    directory=paths,
    environment=st.dictionaries(texts, texts, max_size=4),
    binds=st.lists(st.builds(BindMount, paths, paths, st.booleans()), max_size=4).map(tuple),
    links=st.lists(st.builds(SymbolicLink, paths, texts), max_size=4).map(tuple),
    covers=st.lists(paths, max_size=3).map(tuple),
    executables=st.lists(paths, max_size=4).map(tuple),
    trampoline=paths,
    network=st.lists(st.builds(EgressGrant, texts, st.none() | st.integers(1, 65535)), max_size=4).map(tuple),
    limits=limits,
    python=st.none() | st.builds(PythonScript, paths, paths, st.lists(texts, max_size=3).map(tuple)),
)


@given(specs)
def test_a_spec_is_the_same_after_its_way_to_the_warden(spec: CageSpec) -> None:
    assert CageSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_spec_with_a_piece_missing_is_not_guessed_at() -> None:
    data = CageSpec("cage-1", "notes", ("/usr/bin/true",), "/", {}).to_json()
    for name in data:
        with pytest.raises(KeyError):
            CageSpec.from_json({key: value for key, value in data.items() if key != name})
