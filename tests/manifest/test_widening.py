"""A person may let a plugin have more than it asks for, and the version says so."""

from __future__ import annotations

from tests.manifest.documents import bundle, native, sound

from paddock.core.semver import Version
from paddock.manifest.capability import NetworkAccess, NoNetwork
from paddock.manifest.native_writer import to_yaml
from paddock.manifest.permissions import with_capabilities
from paddock.manifest.read import read_bytes

API = NetworkAccess("api.example.com", 443)


def test_an_added_capability_makes_another_version_that_reads_back_the_same() -> None:
    asked = sound(native(version="1.0.0+b1", runtime={"command": ["x"]}, capabilities=["net:[]"]))
    wider = with_capabilities(asked, [API])

    assert wider.capabilities == (API,)
    assert wider.version.startswith("1.0.0+b1.")
    Version.parse(wider.version)
    assert sound(read_bytes("paddock.yaml", to_yaml(wider).encode())) == wider
    assert with_capabilities(sound(bundle()), [API]).version.startswith("1.0.0+")


def test_nothing_new_changes_nothing() -> None:
    asked = sound(native(capabilities=["net:api.example.com:443"]))

    assert with_capabilities(asked, [API, NoNetwork()]) is asked
    assert with_capabilities(asked, []) is asked
