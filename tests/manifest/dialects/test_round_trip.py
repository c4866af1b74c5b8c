"""Whatever dialect a manifest came in, its native form reads back to an equal model."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.manifest.documents import BUNDLE, KAGED, KERNEL, NATIVE, OSQR, SEEDS, SHU, changed, sound
from tests.manifest.strategies import json_values, manifests, odd_text, schemas, secret_names, shown_text

from paddock.manifest.model import Manifest
from paddock.manifest.native_writer import to_document, to_yaml
from paddock.manifest.read import ManifestResult, read_bytes, read_stored
from paddock.manifest.syntax.document import ParsedDocument

# Each example is a whole document; many small runs find more than few long ones.
few = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def assert_same_when_read_back(manifest: Manifest) -> None:
    text = to_yaml(manifest)
    again = sound(read_bytes("paddock.yaml", text.encode()))

    assert again == manifest, text
    assert to_yaml(again) == text


def assert_all_same(reading: ManifestResult) -> None:
    assert reading.errors == (), [str(error) for error in reading.errors]
    for plugin in reading.plugins:
        assert_same_when_read_back(plugin.manifest)


@few
@given(manifests())
def test_any_model_reads_back_from_its_native_text(manifest: Manifest) -> None:
    assert_same_when_read_back(manifest)


@few
@given(manifests())
def test_any_model_reads_back_from_its_stored_values(manifest: Manifest) -> None:
    stored = json.loads(json.dumps(to_document(manifest)))

    assert read_stored(ParsedDocument("stored", stored)) == manifest


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("kaged-plugin.yaml", "kaged-plugin.yaml"),
        ("fourth-generation-formula.yaml", "manifest.yaml"),
        ("email-generate-draft.json", "email.json"),
        ("gchat-digest-manifest.py.txt", "manifest.py"),
        ("gchat-digest.yaml", "manifest.yaml"),
    ],
)
def test_every_printed_manifest_reads_back_from_its_native_form(file: str, name: str) -> None:
    assert_all_same(read_bytes(name, (SEEDS / file).read_bytes()))


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with any of these fields, or none."""
    return st.fixed_dictionaries({}, optional=fields)


def texts(longest: int = 60) -> st.SearchStrategy[list[str]]:
    return st.lists(odd_text(longest), max_size=3)


effects = st.sampled_from(
    [[], ["read_only"], ["db_write", "gmail_send"], ["none"], ["s3_final_write", "s3_temp_write"]]
)
mcp_tool = some(
    description=odd_text(),
    title=shown_text(),
    outputSchema=schemas() | st.booleans(),
    annotations=st.dictionaries(odd_text(20), json_values(), max_size=2),
    effects=effects,
    timeout_sec=st.integers(1, 900),
).flatmap(
    lambda tool: st.builds(
        lambda name, schema: tool | {"name": name, "inputSchema": schema},
        st.from_regex(r"[A-Za-z0-9_./-]{1,40}", fullmatch=True),
        schemas() | st.booleans(),
    )
)
mcp_tools = st.lists(mcp_tool, max_size=3, unique_by=lambda tool: tool["name"])
env = st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True), odd_text(), max_size=2)


@few
@given(
    some(
        description=odd_text(200).filter(bool),
        author=shown_text(),
        license=odd_text(60),
        env=env,
        capabilities=st.sampled_from([["net:[]", "read:fs:config:/a b"], [{"net": []}], ["kaged:storage:write"]]),
        hooks=st.sampled_from([["pre_compact"], ["pre_compact", "post_compact"]]),
        tools=st.lists(
            st.builds(
                lambda name, description, schema: {
                    "name": name,
                    "description": description,
                    "parameters_schema": schema,
                },
                st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True),
                odd_text(),
                schemas() | st.booleans(),
            ),
            max_size=3,
            unique_by=lambda tool: tool["name"],
        ),
        methods=st.sampled_from([["a.b"], [{"name": "a.b", "params_schema": {}, "effects": []}]]),
        config_schema=st.just({"type": "object", "properties": {"x": {"type": "string"}}}),
        command=texts().map(lambda words: ["program", *words]),
        hook_timeout_sec=st.integers(1, 60),
    ),
    odd_text(20),
    odd_text(64).filter(bool),
)
def test_a_kaged_manifest_reads_back(fields: dict[str, Any], default: str, label: str) -> None:
    if "config_schema" in fields:
        knob = {"type": "text", "label": label, "default": default, "binds_to": "config.x", "description": default}
        fields = fields | {"knobs": {"it": knob}}
    assert_all_same(read_bytes("kaged-plugin.yaml", json_as_yaml(changed(KAGED, **fields))))


@few
@given(
    some(
        type=st.just("operator"),
        owner=shown_text(),
        description=odd_text(),
        schemas=some(input=schemas() | st.just("schemas/in.json"), output=schemas()),
        requires=some(
            tools=st.sampled_from([[], ["Doc.Summarize@1.x", "Text.Score", "X.Y@>=1.2 <3"]]),
            capabilities=texts(),
            context_fields=texts(),
        ),
        effects=effects,
        policy_tags=texts(),
        scopes=texts(),
        allowed_actions=texts(),
        timeout_sec=st.integers(1, 900),
        observability=some(log_level=st.sampled_from(["debug", "info"]), emit_samples=st.booleans()),
    )
)
def test_a_kernel_manifest_reads_back(fields: dict[str, Any]) -> None:
    assert_all_same(read_bytes("manifest.json", json.dumps(changed(KERNEL, **fields)).encode()))


@few
@given(
    some(
        display_name=shown_text(),
        description=odd_text(),
        author=shown_text(),
        license=odd_text(60),
        homepage=odd_text(),
        entrypoints=st.dictionaries(
            st.from_regex(r"[A-Za-z0-9_./-]{1,30}", fullmatch=True), st.just("a.b:C"), min_size=1, max_size=3
        ),
        capabilities=st.lists(st.sampled_from(["kb", "cursor", "http", "rate_limit", "log"]), max_size=4),
        secrets=st.lists(secret_names, max_size=2),
        required_identities=st.lists(
            some(mode=st.sampled_from(["user", "domain_delegate"]), scopes=texts(), optional=st.booleans()).flatmap(
                lambda rest: st.builds(lambda provider: rest | {"provider": provider}, odd_text(30).filter(bool))
            ),
            max_size=2,
        ),
        op_auth=st.dictionaries(
            odd_text(20),
            some(
                provider=odd_text(20),
                mode=st.just("service_account"),
                scopes=texts(),
                subject_hint=odd_text(20),
                secrets=st.dictionaries(secret_names, some(allowed_scope=st.just("user")), max_size=2),
            ),
            max_size=2,
        ),
        allowed_feed_ops=texts(),
        origins=texts(),
        policy_tags=texts(),
        params_schema=schemas(),
        output_schema=schemas(),
    )
)
def test_a_shu_manifest_reads_back_from_yaml_and_from_python(fields: dict[str, Any]) -> None:
    document = changed(SHU, **fields)
    assert_all_same(read_bytes("manifest.yaml", json_as_yaml(document)))
    assert_all_same(read_bytes("manifest.py", f"PLUGIN_MANIFEST = {document!r}".encode()))


@few
@given(
    some(
        behavioral_modifications=some(
            communication_style=st.builds(lambda text: {"description": text, "intensity": "subtle"}, odd_text()),
            honesty_tier_override=st.builds(
                lambda mode, kept: {"enabled": True, "default_mode": mode, "supreme_court_accessible": kept},
                odd_text(60),
                st.booleans(),
            ),
            proactive_engagement=st.builds(
                lambda topics, threshold, synonyms: {
                    "can_initiate": True,
                    "trigger_topics": topics,
                    "confidence_threshold": threshold,
                    "synonyms": synonyms,
                },
                texts(),
                st.floats(0, 1) | st.integers(0, 1),
                st.dictionaries(odd_text(20), texts(), max_size=2),
            ),
            response_formatting=some(default_length=st.just("concise"), emoji_usage=st.just("none")),
        ),
        data_access=some(
            pkv_read=st.booleans(),
            pkv_write=st.booleans(),
            memory_integration=st.sampled_from(["none", "reference_only", "full"]),
            external_apis=st.sampled_from([[], ["api.example.com", "b.example:8443"]]),
        ),
        capabilities=some(
            tools=mcp_tools,
            resources=st.lists(
                st.builds(
                    lambda uri, name, rest: {"uri": uri, "name": name} | rest,
                    odd_text(60).filter(bool),
                    odd_text(60).filter(bool),
                    some(description=odd_text(), mimeType=odd_text(60)),
                ),
                max_size=2,
            ),
            prompts=st.lists(
                st.builds(
                    lambda name, rest: {"name": name} | rest,
                    odd_text(60).filter(bool),
                    some(
                        description=odd_text(),
                        text=odd_text(),
                        arguments=st.lists(
                            st.builds(
                                lambda name, required: {"name": name, "required": required},
                                odd_text(60).filter(bool),
                                st.booleans(),
                            ),
                            max_size=2,
                        ),
                    ),
                ),
                max_size=2,
            ),
        ),
    ),
    shown_text(100).map(lambda text: f"a {text}"),
    st.sampled_from(["1.0.0", "1.0", "v2", "spring '26", "1.0.0-beta"]),
)
def test_an_osqr_manifest_reads_back(fields: dict[str, Any], name: str, version: str) -> None:
    plugin = OSQR["plugin"] | {"name": name, "version": version}
    assert_all_same(read_bytes("manifest.yaml", json_as_yaml(changed(OSQR, plugin=plugin, **fields))))


@few
@given(
    some(
        display_name=shown_text(),
        description=odd_text(),
        author=st.builds(lambda name: {"name": name}, shown_text()),
        license=odd_text(60),
        homepage=odd_text(),
        icon=odd_text(),
        tools=mcp_tools,
        prompts=st.lists(
            st.builds(
                lambda name, arguments, text: {"name": name, "arguments": arguments, "text": text},
                odd_text(60).filter(bool),
                st.lists(odd_text(30).filter(bool), max_size=3),
                odd_text(),
            ),
            max_size=2,
        ),
        server=st.builds(
            lambda command, args, variables: {
                "type": "node",
                "mcp_config": {
                    "command": command,
                    "args": args,
                    "env": variables,
                    "platform_overrides": {"linux": {"args": args}},
                },
            },
            odd_text().filter(lambda text: bool(text) and "${" not in text),
            texts().map(lambda words: [word for word in words if "${" not in word]),
            env.map(lambda known: {key: value for key, value in known.items() if "${" not in value}),
        ),
        user_config=st.dictionaries(
            odd_text(20),
            some(
                title=odd_text(),
                description=odd_text(),
                required=st.booleans(),
                default=json_values(),
                multiple=st.booleans(),
                sensitive=st.booleans(),
                min=st.integers(0, 5),
            ).flatmap(
                lambda rest: st.builds(
                    lambda kind: rest | {"type": kind}, st.sampled_from(["string", "number", "file"])
                )
            ),
            max_size=3,
        ),
    )
)
def test_an_mcp_bundle_reads_back(fields: dict[str, Any]) -> None:
    assert_all_same(read_bytes("manifest.json", json.dumps(changed(BUNDLE, **fields)).encode()))


local = some(args=texts(), env=env | st.dictionaries(st.just("PORT"), st.integers(0, 9)), cwd=odd_text()).flatmap(
    lambda rest: st.builds(lambda command: rest | {"command": command}, odd_text().filter(bool))
)
remote = some(
    headers=st.dictionaries(odd_text(30), odd_text(), max_size=2), type=st.sampled_from(["http", "sse"])
).flatmap(
    lambda rest: st.builds(
        lambda tail: rest | {"url": f"https://a.example/{tail}"},
        st.from_regex(r"[a-z/]{0,9}(\?[a-z=&]{0,9})?", fullmatch=True),
    )
)


@few
@given(st.dictionaries(shown_text(80).map(lambda text: f"s {text}"), local | remote, min_size=1, max_size=3))
def test_a_client_configuration_reads_back_and_its_values_stay_outside(servers: dict[str, Any]) -> None:
    reading = read_bytes("mcp.json", json.dumps({"mcpServers": servers}).encode())
    if {error.code for error in reading.errors} == {"duplicate_name"}:
        return  # two names of one slug, which is refused on purpose
    assert_all_same(reading)
    for plugin in reading.plugins:
        schema = plugin.manifest.system_config_schema or {"properties": {}}
        assert set(plugin.values) <= set(schema["properties"])


class Quoting(yaml.SafeDumper):
    """Writes every text in quotes, as a careful program does: what is a word and what a number is then plain."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the dumper's own shape
        return True


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def json_as_yaml(document: Any) -> bytes:
    return yaml.dump(document, Dumper=Quoting, sort_keys=False).encode()


@few
@given(odd_text())
def test_any_text_survives_our_yaml_as_value_and_as_key(text: str) -> None:
    document = changed(NATIVE, operation_auth={text: {"scopes": [text]}})
    manifest = sound(read_bytes("paddock.yaml", json_as_yaml(document)))

    assert (manifest.operation_auth[0].operation, manifest.operation_auth[0].scopes) == (text, (text,))
    assert_same_when_read_back(manifest)
