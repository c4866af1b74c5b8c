"""Generated values: odd texts, capabilities, whole models and whole documents, all of them sound."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from paddock.core.ids import PluginName
from paddock.core.secret import SECRET_NAME_PATTERN, is_config_secret
from paddock.manifest.capability import (
    FAMILY_MODES,
    HOST_FAMILIES,
    Capability,
    Execute,
    FileAccess,
    HostService,
    NetworkAccess,
    NoNetwork,
    StorageAccess,
)
from paddock.manifest.effects import Effect
from paddock.manifest.model import (
    Behaviour,
    CallableForm,
    CallableSpec,
    CommandRuntime,
    DataAccess,
    Dialect,
    Feeds,
    IdentityRequirement,
    Manifest,
    Observability,
    OperationAuth,
    PluginKind,
    Prompt,
    PromptArgument,
    PythonRuntime,
    RemoteRuntime,
    Requires,
    Resource,
    SchemaFile,
    Timing,
    ToolRequirement,
)
from paddock.manifest.read import dialect_schema
from paddock.manifest.secret_use import SecretRecipient

_SPECIMENS = [
    *("no", "Yes", "null", "~", "", "1e3", "0o17", "0x1F", "017", "1_000", "-0", ".5", "1.", ".inf", "=", "<<", "!x"),
    *("# no comment", "a: b", "a #b", "- a", "? a", "&a", "*a", "%a", "@a", "`a", "{a}", "[a]", "'a'", '"a"', "|", ">"),
    *(
        " lead",
        "trail ",
        "\ttab\t",
        "two\nlines",
        "\nfirst",
        "last\n",
        "blank\n\n\nlines",
        "a\n  b\n c",
        " \n ",
        "a \nb",
    ),
    *(
        "nel\x85x",
        "ls\u2028x",
        "ps\u2029x",
        "nbsp\u00a0x",
        "bom\ufeffx",
        "emoji 👩‍🚀🇫🇷",
        "عربى",
        "e\u0301",
        "\U0001f600",
        "\U0010fffd",
    ),
    *(
        "x" * 300,
        "word " * 60,
        "a\\b\\n",
        "12345678901234567890123",
        "2026-01-31",
        "1:30",
        "\x7f",
        "\x1b[31mred",
        "c\rr\r\n",
    ),
]


def odd_text(longest: int = 200) -> st.SearchStrategy[str]:
    """Texts that a careless reader or writer of YAML gets wrong."""
    free = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=longest)
    return st.one_of(st.sampled_from([text for text in _SPECIMENS if len(text) <= longest]), free)


def shown_text(longest: int = 200) -> st.SearchStrategy[str]:
    """Odd texts that may stand on a screen."""
    free = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Cf"]), max_size=longest)
    tame = [text for text in _SPECIMENS if text.isprintable() and len(text) <= longest]
    return st.one_of(st.sampled_from(tame), free)


def _path() -> st.SearchStrategy[str]:
    part = st.sampled_from(["opt", "data", "x", "with space", "..a", "a.b", "Ünï"])
    return st.lists(part, max_size=4).map(lambda parts: "/" + "/".join(parts))


def capabilities() -> st.SearchStrategy[Capability]:
    roots = st.sampled_from(["", "config", "project"])
    modes = st.sampled_from(["read", "write"])
    hosts = st.sampled_from(["a.example", "b.a.example", "localhost", "127.0.0.1", "[::1]"])
    plain = [HostService(family) for family in HOST_FAMILIES if family not in FAMILY_MODES]
    moded = [HostService(family, mode) for family, all_modes in FAMILY_MODES.items() for mode in all_modes]
    return st.one_of(
        st.builds(FileAccess, modes, _path(), roots),
        st.builds(Execute, st.sampled_from(["bash", "g++", "python3.11"]), _path(), roots),
        st.builds(NetworkAccess, hosts, st.none() | st.integers(1, 65535)),
        st.just(NetworkAccess("*", None)),
        st.just(NoNetwork()),
        st.builds(StorageAccess, modes),
        st.sampled_from(plain + moded),
    )


def granted() -> st.SearchStrategy[tuple[Capability, ...]]:
    """A list without repetition that does not ask for the network and for none."""

    def sound(ones: list[Capability]) -> tuple[Capability, ...]:
        if any(isinstance(one, NetworkAccess) for one in ones):
            ones = [one for one in ones if not isinstance(one, NoNetwork)]
        return tuple(dict.fromkeys(ones))

    return st.lists(capabilities(), max_size=6).map(sound)


def json_values() -> st.SearchStrategy[Any]:
    """Plain JSON values, as annotations and defaults hold them."""
    numbers = st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, allow_infinity=False, width=32)
    leaf = st.none() | st.booleans() | numbers | odd_text(40)
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text(20), inner, max_size=3), max_leaves=6
    )


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Sound JSON Schemas with odd field names and defaults."""
    leaf = st.one_of(
        st.just({}),
        st.builds(lambda default: {"type": "string", "default": default}, odd_text(30)),
        st.builds(lambda values: {"enum": values}, st.lists(odd_text(20), min_size=1, max_size=4, unique=True)),
        st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(-100, 100)),
        st.builds(lambda text: {"type": "string", "description": text}, odd_text(60)),
    )
    names = odd_text(20).filter(lambda name: name not in ("$ref", "$id", "id"))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(
                lambda fields: {"type": "object", "properties": fields}, st.dictionaries(names, inner, max_size=3)
            ),
            st.builds(lambda items: {"type": "array", "items": items}, inner),
        ),
        max_leaves=5,
    )


secret_names = st.from_regex(SECRET_NAME_PATTERN, fullmatch=True).filter(lambda name: not is_config_secret(name))


def _words(longest: int = 60, most: int = 4) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(odd_text(longest), max_size=most).map(tuple)


def _effects() -> st.SearchStrategy[tuple[Effect, ...] | None]:
    acting = [effect for effect in Effect if effect is not Effect.READ_ONLY]
    several = st.lists(st.sampled_from(acting), max_size=3, unique=True).map(tuple)
    return st.one_of(st.none(), st.just((Effect.READ_ONLY,)), several)


def _callables() -> st.SearchStrategy[tuple[CallableSpec, ...]]:
    names = {
        CallableForm.WHOLE: st.sampled_from(["Email.Draft", "digest", "A-b"]),
        CallableForm.TOOL: st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True),
        CallableForm.METHOD: st.from_regex(r"[a-z]{1,8}\.[a-z_]{1,8}", fullmatch=True).filter(
            lambda name: (
                not name.startswith(("kaged.", "paddock.", "system."))
                and not any(part.startswith("_") for part in name.split("."))
            )
        ),
    }
    schema = st.none() | schemas() | st.builds(SchemaFile, st.sampled_from(["schemas/in.json", "a b.json"]))

    def spec(form: CallableForm) -> st.SearchStrategy[CallableSpec]:
        return st.builds(
            CallableSpec,
            name=names[form],
            form=st.just(form),
            description=odd_text(),
            title=shown_text(),
            input_schema=schema,
            output_schema=schema,
            effects=_effects(),
            policy_tags=_words(),
            required_scopes=_words(),
            requires_approval=st.booleans(),
            timeout_sec=st.none() | st.integers(1, 900),
            annotations=st.dictionaries(odd_text(20), json_values(), max_size=2),
        )

    def ordered(specs: list[CallableSpec]) -> tuple[CallableSpec, ...]:
        order = [CallableForm.WHOLE, CallableForm.TOOL, CallableForm.METHOD]
        once = {one.name: one for one in specs}.values()
        return tuple(sorted(once, key=lambda one: order.index(one.form)))

    return st.lists(st.sampled_from(list(names)).flatmap(spec), max_size=4).map(ordered)


def _runtimes() -> st.SearchStrategy[Any]:
    env = st.dictionaries(st.sampled_from(["A", "LOG_LEVEL", "no"]), odd_text(), max_size=2)
    command = st.lists(odd_text(), max_size=4).map(lambda words: ("program", *words))
    url = st.sampled_from(["https://a.example/mcp", "http://localhost:8080", "https://a.example/?k=${user_config.k}"])
    return st.one_of(
        st.none(),
        st.builds(
            CommandRuntime, command, st.sampled_from(["paddock", "mcp"]), env, st.none() | odd_text().filter(bool)
        ),
        st.builds(PythonRuntime, st.dictionaries(odd_text(30), st.just("a.b:C"), min_size=1, max_size=3), env),
        st.builds(
            RemoteRuntime,
            url,
            st.sampled_from(["streamable-http", "sse"]),
            st.dictionaries(odd_text(30), odd_text(), max_size=2),
        ),
    )


def manifests() -> st.SearchStrategy[Manifest]:
    """Any model that a reader of ours could have made."""
    identifiers = odd_text(40).filter(bool)
    prompt = st.builds(
        Prompt,
        identifiers,
        odd_text(),
        st.lists(st.builds(PromptArgument, identifiers, odd_text(), st.booleans()), max_size=2).map(tuple),
        st.none() | odd_text().filter(bool),
    )
    auth = st.builds(
        OperationAuth,
        odd_text(30),
        st.none() | odd_text(30).filter(bool),
        st.none() | st.sampled_from(["user", "service_account", "domain_delegate"]),
        _words(),
        st.none() | odd_text(30).filter(bool),
        st.dictionaries(secret_names, st.sampled_from(["user", "system", "system_or_user"]), max_size=2),
    )
    hooks = st.lists(st.sampled_from(["on_session_start", "post_compact"]), unique=True, max_size=2).map(tuple)
    return st.builds(
        Manifest,
        name=st.sampled_from(["hello", "Email.Draft", "a-b_c"]).map(PluginName),
        version=st.sampled_from(["1.0.0", "0.0.0+00000000", "1.0.0-rc.1"]),
        dialect=st.sampled_from([Dialect.NATIVE, Dialect.KERNEL, Dialect.OSQR, Dialect.MCP]),
        description=odd_text(),
        title=shown_text(),
        author=shown_text(),
        license=odd_text(60),
        homepage=odd_text(),
        icon=odd_text(),
        kind=st.sampled_from([PluginKind.PLUGIN, PluginKind.OPERATOR]),
        trust_claim=st.none() | st.sampled_from(["verified", "community", "personal"]),
        runtime=_runtimes(),
        start=st.sampled_from(["eager", "lazy"]),
        capabilities=granted(),
        callables=_callables(),
        hooks=hooks,
        notifications=st.sampled_from([(), ("a.b",), ("a.b", "c.d.e")]),
        config_schema=st.none() | st.just({}) | st.just({"type": "object", "properties": {"no": {"default": "1e3"}}}),
        system_config_schema=st.none() | st.just({}) | st.just({"properties": {"key": {"x-secret": True}}}),
        requires=st.builds(
            Requires,
            st.sampled_from([(), (ToolRequirement("Doc.Summarize", "1.x"), ToolRequirement("X"))]),
            _words(),
            _words(),
        ),
        allowed_actions=_words(),
        policy_tags=_words(),
        observability=st.builds(Observability, st.sampled_from(["debug", "info", "error"]), st.booleans()),
        behaviour=st.none() | _behaviours(),
        data_access=st.none()
        | st.builds(
            DataAccess, st.booleans(), st.booleans(), st.sampled_from(["none", "reference_only", "full"]), _words()
        ),
        resources=st.lists(
            st.builds(Resource, identifiers, identifiers, odd_text(), st.none() | odd_text(30).filter(bool)), max_size=2
        ).map(tuple),
        prompts=st.lists(prompt, max_size=2).map(tuple),
        identities=st.lists(
            st.builds(
                IdentityRequirement, identifiers, st.sampled_from(["user", "service_account"]), _words(), st.booleans()
            ),
            max_size=2,
        ).map(tuple),
        operation_auth=st.lists(auth, max_size=2, unique_by=lambda one: one.operation).map(tuple),
        secrets=st.lists(secret_names, max_size=4).map(tuple),
        feeds=st.builds(Feeds, st.none() | odd_text(30).filter(bool), _words()),
        origins=_words(),
        timing=st.builds(Timing, st.integers(1, 30), st.integers(5, 300), st.integers(1, 60), st.integers(1, 900)),
    ).map(_with_what_follows)


def _with_what_follows(manifest: Manifest) -> Manifest:
    """A plugin with hooks observes, and a secret that an operation names is one of its secrets."""
    from msgspec.structs import replace

    named = dict.fromkeys(secret for auth in manifest.operation_auth for secret in auth.secrets)
    secrets = (*manifest.secrets, *(secret for secret in named if secret not in manifest.secrets))
    # The first one is bound, so that it is written and read again.
    bound = {
        secret: (
            SecretRecipient(NetworkAccess("api.example.com", 443)),
            SecretRecipient(NetworkAccess("b.example", None), "x-key"),
        )
        for secret in secrets[:1]
    }
    return replace(manifest, roles=("observer",) if manifest.hooks else (), secrets=secrets, secret_hosts=bound)


def _behaviours() -> st.SearchStrategy[Behaviour]:
    return st.builds(
        Behaviour,
        style=odd_text(),
        intensity=st.sampled_from(["subtle", "moderate", "dominant"]),
        honesty_override=st.booleans(),
        honesty_mode=odd_text(60),
        direct_feedback_kept=st.booleans(),
        can_initiate=st.booleans(),
        trigger_topics=_words(),
        confidence_threshold=st.floats(0, 1),
        synonyms=st.dictionaries(odd_text(20), _words(20), max_size=2),
        response_length=st.none() | st.sampled_from(["concise", "standard", "detailed"]),
        emoji_usage=st.none() | st.sampled_from(["none", "sparse", "moderate"]),
    )


def _wrong_values() -> st.SearchStrategy[Any]:
    leaf = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=8)
    )
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=6,
    )


@cache
def misshapen_form(form: str) -> st.SearchStrategy[Any]:
    """Documents of a dialect with anything at all in the place of some of their values."""
    schema = dialect_schema(form).source
    assert isinstance(schema, dict)
    return _misshapen(schema)


def _misshapen(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that follow a schema here and there and are anything at all elsewhere."""
    here: list[st.SearchStrategy[Any]] = [_wrong_values()]
    if "enum" in schema:
        here.append(st.sampled_from(schema["enum"]))
    if "properties" in schema:
        optional = {
            name: st.deferred(lambda inner=inner: _misshapen(inner)) for name, inner in schema["properties"].items()
        }
        here += [st.fixed_dictionaries({}, optional=optional)] * 3
    if isinstance(schema.get("additionalProperties"), dict):
        inner = schema["additionalProperties"]
        here += [st.dictionaries(st.text(max_size=6), st.deferred(lambda: _misshapen(inner)), max_size=2)] * 3
    if isinstance(schema.get("items"), dict):
        items = schema["items"]
        here += [st.lists(st.deferred(lambda: _misshapen(items)), max_size=2)] * 3
    return st.one_of(here)
