"""The manifests printed in the documents that Paddock grew from load as they stand there."""

from __future__ import annotations

import pytest
from tests.manifest.documents import KAGED, SEEDS, SHU, changed, read_yaml, sound, warned

from paddock.core.schema.compile import compile_schema
from paddock.manifest.capability import FileAccess, HostService, NoNetwork, StorageAccess
from paddock.manifest.effects import Effect
from paddock.manifest.model import (
    CallableForm,
    CommandRuntime,
    Dialect,
    Manifest,
    PluginKind,
    PythonRuntime,
    SchemaFile,
    Timing,
)
from paddock.manifest.read import ManifestResult, read_bytes
from paddock.manifest.rules.knobs import value_schema


def seed(file: str, name: str) -> ManifestResult:
    return read_bytes(name, (SEEDS / file).read_bytes())


@pytest.mark.req("G-16", "schema")
def test_the_full_kaged_manifest_loads_as_printed() -> None:
    reading = seed("kaged-plugin.yaml", "kaged-plugin.yaml")
    manifest = sound(reading)

    assert reading.warnings == ()
    assert (manifest.name, manifest.version, manifest.dialect) == ("memory-markdown", "0.1.0", Dialect.KAGED)
    assert manifest.description == "Markdown-file-backed agent memory."
    assert (manifest.author, manifest.license, manifest.homepage) == ("kaged", "MIT", "https://github.com/...")
    assert manifest.runtime == CommandRuntime(
        ("/usr/bin/env", "bun", "./dist/index.js"), "paddock", {"LOG_LEVEL": "info"}
    )
    assert manifest.capabilities == (
        FileAccess("read", "/memory", "config"),
        FileAccess("write", "/memory", "config"),
        StorageAccess("read"),
        NoNetwork(),
    )
    assert manifest.roles == ("observer",)
    assert manifest.hooks == ("on_session_start", "on_session_idle", "pre_compact", "post_compact")
    assert [(spec.name, spec.form) for spec in manifest.callables] == [
        ("retain", CallableForm.TOOL),
        ("recall", CallableForm.TOOL),
        ("presets.list", CallableForm.METHOD),
    ]
    assert manifest.callables[0].input_schema == {
        "type": "object",
        "properties": {
            "content": {"type": "string"},
            "context": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["content"],
    }
    assert manifest.notifications == ("catalog.updated",)
    assert manifest.config_schema is not None
    assert list(manifest.config_schema["properties"]) == ["isolation", "store", "tags"]
    assert manifest.system_config_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert [(knob.name, knob.type, knob.binds_to) for knob in manifest.knobs] == [
        ("store", "path", "config.store"),
        ("isolation", "enum", "config.isolation"),
    ]
    assert manifest.timing == Timing(shutdown=5, health_interval=30, hook=10)


@pytest.mark.req("G-14", "manifest schema")
def test_the_printed_knobs_load_beside_the_config_they_bind_to() -> None:
    fields = {
        "recall_budget": {"type": "string", "enum": ["low", "mid", "high"]},
        "retain_every_n_turns": {"type": "integer"},
        "store": {"type": "string"},
        "thinking_model": {"type": ["string", "null"]},
    }
    text = (SEEDS / "kaged-knobs.yaml").read_text()
    whole = read_yaml("kaged-plugin.yaml", changed(KAGED, config_schema={"type": "object", "properties": fields}))
    both = f"{_yaml(whole)}\n{text}"

    reading = read_bytes("kaged-plugin.yaml", both.encode())
    knobs = {knob.name: knob for knob in sound(reading).knobs}

    assert warned(reading) == []
    assert list(knobs) == ["recall_budget", "retain_every_n_turns", "store", "thinking_model"]
    assert knobs["recall_budget"].options["labels"]["mid"] == "Mid (balanced)"
    assert compile_schema(value_schema(knobs["thinking_model"])).is_valid(None)
    assert compile_schema(value_schema(knobs["store"])).is_valid("project:/notes")
    assert not compile_schema(value_schema(knobs["store"])).is_valid("/etc")
    assert not compile_schema(value_schema(knobs["store"])).is_valid("config:/../../etc")


def _yaml(reading: ManifestResult) -> str:
    import yaml

    schema = sound(reading).config_schema
    return yaml.safe_dump(changed(KAGED, config_schema=schema))


@pytest.mark.req("G-12", "split")
def test_the_printed_config_split_loads_with_its_secret_on_the_system_side() -> None:
    import yaml

    text = yaml.safe_dump(KAGED) + (SEEDS / "kaged-config-split.yaml").read_text()
    manifest = sound(read_bytes("kaged-plugin.yaml", text.encode()))

    assert manifest.config_schema is not None
    assert manifest.system_config_schema is not None
    assert list(manifest.config_schema["properties"]) == ["api_url", "recall_budget", "tags"]
    assert manifest.system_config_schema["required"] == ["api_token"]


@pytest.mark.req("O-01", "appendix b")
def test_the_fourth_generation_formula_loads_as_printed() -> None:
    reading = seed("fourth-generation-formula.yaml", "manifest.yaml")
    manifest = sound(reading)

    assert [warning.code for warning in reading.warnings] == ["no_runtime"]
    assert (manifest.name, manifest.title) == ("fourth-generation-formula", "Fourth Generation Formula")
    assert (manifest.author, manifest.trust_claim, manifest.dialect) == ("Kable Record", "verified", Dialect.OSQR)
    assert manifest.icon == "https://fourthgenformula.com/plugin-icon.png"
    assert manifest.capabilities == (
        HostService("vault", "read"),
        HostService("vault", "write"),
        HostService("memory", "full"),
    )
    behaviour = manifest.behaviour
    assert behaviour is not None
    assert behaviour.style == "Supportive coach focused on legacy and transfer"
    assert (behaviour.intensity, behaviour.honesty_override, behaviour.honesty_mode) == (
        "moderate",
        True,
        "encouraging_truth",
    )
    assert behaviour.direct_feedback_kept and behaviour.can_initiate
    assert len(behaviour.trigger_topics) == 10 and behaviour.trigger_topics[-1] == "builder's creed"
    assert (behaviour.confidence_threshold, behaviour.response_length, behaviour.emoji_usage) == (
        0.7,
        "standard",
        "sparse",
    )
    access = manifest.data_access
    assert access is not None
    assert (access.vault_read, access.vault_write, access.memory, access.external_apis) == (True, True, "full", ())
    assert [spec.name for spec in manifest.callables] == [
        "assess_transfer_readiness",
        "generate_builders_creed",
        "book_writing_question",
        "generate_manuscript",
    ]
    assert all(spec.form is CallableForm.TOOL and spec.effects is None for spec in manifest.callables)
    assert [resource.uri for resource in manifest.resources] == [
        "fgf://framework/9-levels",
        "fgf://templates/book-of-builders",
    ]
    assert manifest.resources[0].mime_type == "text/markdown"
    assert [(prompt.name, len(prompt.arguments)) for prompt in manifest.prompts] == [
        ("weekly_reflection", 1),
        ("transfer_conversation_starter", 0),
    ]
    assert manifest.prompts[0].arguments[0].required


@pytest.mark.req("K-02", "loads as written")
def test_the_kernel_manifest_loads_as_printed_and_its_operator_is_held_to_no_effects() -> None:
    reading = seed("email-generate-draft.json", "email.json")
    manifest = sound(reading)

    assert warned(reading) == ["effects_missing"]
    assert (manifest.name, manifest.kind, manifest.version) == ("Email.GenerateDraft", PluginKind.OPERATOR, "1.2.0")
    assert (manifest.author, manifest.dialect, manifest.runtime) == ("canapply", Dialect.KERNEL, None)
    (whole,) = manifest.callables
    assert (whole.name, whole.form) == ("Email.GenerateDraft", CallableForm.WHOLE)
    assert whole.input_schema == SchemaFile("schemas/email_generate_input.v1.json")
    assert whole.output_schema == SchemaFile("schemas/email_generate_output.v1.json")
    assert whole.effects == (Effect.READ_ONLY,)
    assert [(tool.name, tool.constraint) for tool in manifest.requires.tools] == [
        ("Doc.Summarize", "1.x"),
        ("Text.Dedupe", "1.x"),
    ]
    assert manifest.requires.context_fields == ("student.profile", "professor.entity", "request.scope")
    assert manifest.policy_tags == ("draft_only", "pii_allowed")
    assert (manifest.observability.log_level, manifest.observability.emit_samples) == ("info", False)


def test_the_two_printed_shu_manifests_mean_the_same() -> None:
    from_python = sound(seed("gchat-digest-manifest.py.txt", "manifest.py"))
    from_yaml = sound(seed("gchat-digest.yaml", "manifest.yaml"))

    assert from_python == from_yaml
    assert (from_python.name, from_python.dialect) == ("gchat_digest", Dialect.SHU)
    assert from_python.runtime == PythonRuntime({"gchat_digest": "my_gchat_plugin.plugin:Plugin"})
    assert from_python.capabilities == tuple(map(HostService, ("cache", "identity", "secrets", "http")))
    assert from_python.secrets == ("google_service_account_json",)
    assert [(spec.name, spec.effects) for spec in from_python.callables] == [("gchat_digest", (Effect.READ_ONLY,))]


def test_the_printed_feed_keys_name_what_may_run_on_a_schedule() -> None:
    text = """
PLUGIN_MANIFEST = {
  "name": "gmail_digest",
  "version": "1.0.0",
  "entrypoints": {"gmail_digest": "gmail.plugin:Plugin"},
  "default_feed_op": "digest",
  "allowed_feed_ops": ["digest"],
}
"""
    manifest = sound(read_bytes("manifest.py", text.encode()))

    assert (manifest.feeds.default_op, manifest.feeds.allowed_ops) == ("digest", ("digest",))


def test_the_printed_secret_scopes_are_kept_per_operation() -> None:
    manifest = _with_auth(
        op_auth={
            "my_operation": {
                "secrets": {
                    "api_key": {"allowed_scope": "system_or_user"},
                    "user_token": {"allowed_scope": "user"},
                }
            }
        }
    )
    (auth,) = manifest.operation_auth

    assert (auth.operation, dict(auth.secrets)) == ("my_operation", {"api_key": "system_or_user", "user_token": "user"})
    assert manifest.secrets == ("api_key", "user_token")


def _with_auth(**changes: object) -> Manifest:
    return sound(read_yaml("manifest.yaml", changed(SHU, **changes)))
