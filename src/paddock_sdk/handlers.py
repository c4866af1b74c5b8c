"""The functions that serve a plugin's tools, methods and hooks, by their names on the wire.

A plain handler takes `(params, context)`. A typed handler takes its parameters by name, and their types are its schema.
That is implemented in `typed.py`, which is loaded when the first typed handler is called or described.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from paddock_sdk.call import Context, JsonObject
from paddock_sdk.scopes import checks_scopes, with_caller_scopes

if TYPE_CHECKING:
    from paddock_sdk.typed import TypedHandler

INJECTED_NAMES = ("context", "host")  # parameters that the SDK supplies, by name or by type

PlainHandler: TypeAlias = Callable[[JsonObject, Context], Any]
H = TypeVar("H", bound=Callable[..., Any])


class Handler:
    """One handler function, plain or typed.

    Raises:
        TypeError: a parameter has no type.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._checks_scopes = checks_scopes(function)
        self._typed: TypedHandler | None = None
        self._plain = takes_params_and_context(function)
        if not self._plain:
            refuse_untyped_parameters(function)

    @property
    def typed(self) -> TypedHandler | None:
        """Its types if it is a typed handler, else None.

        Raises:
            TypeError: a type has no JSON Schema.
        """
        return None if self._plain else self._types()

    def _types(self) -> TypedHandler:
        if self._typed is None:
            from paddock_sdk.typed import TypedHandler

            self._typed = TypedHandler(self.function)
        return self._typed

    def begin(self, params: JsonObject, context: Context, **services: Any) -> Any:
        """Call the function; its return value may still have to be awaited or iterated.

        Raises:
            InvalidParams: the parameters do not match its types; carries every mistake.
            ScopeMissing: the caller lacks a scope that it requires.
        """
        if self._checks_scopes:
            return with_caller_scopes(context.scopes, lambda: self._call(params, context, services))
        return self._call(params, context, services)

    def _call(self, params: JsonObject, context: Context, services: dict[str, Any]) -> Any:
        if self._plain:
            return self.function(params, context)
        typed = self._types()
        return self.function(**typed.arguments(params), **typed.injected_arguments(context=context, **services))

    def finish(self, result: Any) -> Any:
        """Return the result as JSON, checked against its type."""
        return result if self._plain else self._types().result(result)


class Handlers:
    """All handlers of a plugin."""

    def __init__(self, plugin: str, namespace: str) -> None:
        self._tool_prefix = f"{plugin}."
        self._hook_prefix = f"{namespace}.hook."
        self._receives_scopes = namespace != "kaged"
        self._by_name: dict[str, Handler] = {}
        self.tools: list[str] = []
        self.methods: list[str] = []

    def add_tool(self, function: H) -> H:
        self._by_name[self._tool_prefix + function.__name__] = self._handler(function)
        self.tools.append(function.__name__)
        return function

    def add_method(self, name: str, function: H) -> H:
        self._by_name[name] = self._handler(function)
        self.methods.append(name)
        return function

    def add_hook(self, name: str, function: H) -> H:
        if checks_scopes(function):
            raise TypeError(f"{function.__name__}: a hook has no caller, so it has no scopes")
        self._by_name[self._hook_prefix + name] = Handler(function)
        return function

    def _handler(self, function: Callable[..., Any]) -> Handler:
        if checks_scopes(function) and not self._receives_scopes:
            raise TypeError(
                f"{function.__name__}: a kaged plugin does not receive its caller's scopes; the manifest's "
                "required_scopes are checked by the host"
            )
        return Handler(function)

    def get(self, wire_name: str) -> Handler | None:
        return self._by_name.get(wire_name)

    def tool(self, name: str) -> Handler | None:
        """Return the handler of a tool by its own name."""
        return self._by_name.get(self._tool_prefix + name)

    def as_manifest(self) -> JsonObject:
        """Return the tools and methods in the manifest's format.

        Raises:
            TypeError: a type has no JSON Schema.
        """
        tools = [manifest_entry(name, self._by_name[self._tool_prefix + name]) for name in self.tools]
        methods = [manifest_entry(name, self._by_name[name]) for name in self.methods]
        return {key: entries for key, entries in (("tools", tools), ("methods", methods)) if entries}


def manifest_entry(name: str, handler: Handler) -> JsonObject:
    """Return a tool or method in the manifest's format, as far as its types and docstring declare it.

    Raises:
        TypeError: a type has no JSON Schema.
    """
    typed = handler.typed
    description = (handler.function.__doc__ or "").strip().partition("\n\n")[0]
    entry: JsonObject = {"name": name, "description": " ".join(description.split())}
    if typed is not None:
        entry["input_schema"] = typed.input_schema
        if typed.output_schema is not None:
            entry["output_schema"] = typed.output_schema
    return {key: value for key, value in entry.items() if value != ""}


def takes_params_and_context(function: Callable[..., Any]) -> bool:
    """Whether a function takes `(params, context)` and no parameters of its own."""
    function = _innermost(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return True  # a callable object: inspecting its parameters would be expensive
    names = _parameter_names(function)
    if code.co_kwonlyargcount or len(names) != 2:
        return False
    first, second = (name.strip("_") for name in names)
    return first in ("params", "") or (names[0] not in function.__annotations__ and second in ("context", ""))


def refuse_untyped_parameters(function: Callable[..., Any]) -> None:
    """Refuse a typed handler with a parameter whose type is not stated: a schema is never guessed.

    Raises:
        TypeError: names the parameters.
    """
    inner = _innermost(function)
    untyped = [
        name
        for name in _parameter_names(inner)
        if name not in inner.__annotations__ and name.strip("_") not in INJECTED_NAMES
    ]
    if untyped:
        raise TypeError(
            f"{inner.__name__}: no type is stated for {', '.join(untyped)}; write as in `{untyped[0]}: str`, "
            "or take `(params, context)` and write the schema into the manifest"
        )


def _innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]
    return function


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return names[1:] if getattr(function, "__self__", None) is not None else names
