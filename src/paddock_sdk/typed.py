"""A function whose schemas come from the types of its parameters and result, and whose arguments are checked.

    @plugin.tool
    def greet(name: Annotated[str, "Whom to greet"], times: int = 1) -> Greeting: ...

A parameter that is `context` or `host`, by its type or by its name, is supplied by the SDK and is not in the schema.
"""

from __future__ import annotations

import typing
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any

from paddock_sdk.call import Context, JsonObject
from paddock_sdk.faults import INTERNAL_ERROR, InvalidParams, PluginFault
from paddock_sdk.host import Host
from paddock_sdk.schema import Problems, TypeSchema, object_schema
from paddock_sdk.schema_from_types import build_schema, resolve_hints, to_json

_VARIADIC_FLAGS = 0x04 | 0x08  # *args, **kwargs
_SERVICES = {"context": Context, "host": Host}


class TypedHandler:
    """The schemas of one function.

    Raises:
        TypeError: a type cannot be resolved or has no JSON Schema.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]
        self._name = function.__name__
        names = _parameters(function)
        defaults = _defaults(function)
        hints = resolve_hints(function)
        result_hint = hints.pop("return", None)
        self._services = {name: _service(name, hints.get(name)) for name in names}
        own_names = [name for name in names if self._services[name] is None]
        schemas = {name: self._parameter_schema(name, hints.get(name, Any)) for name in own_names}
        required = [name for name in own_names if name not in defaults]
        self._input = object_schema(schemas, required, defaults, dict)
        self._output = self._result_schema(result_hint)

    @property
    def input_schema(self) -> JsonObject:
        return self._input.schema

    @property
    def output_schema(self) -> JsonObject | None:
        """None if the function does not annotate its result."""
        return None if self._output is None else self._output.schema

    def arguments(self, params: JsonObject) -> JsonObject:
        """Return the arguments for the function.

        Raises:
            InvalidParams: the parameters do not match; carries every mistake with its path.
        """
        mistakes: Problems = []
        arguments = self._input.read(params, "", mistakes)
        if mistakes:
            message = "; ".join(f"{one['path']} {one['message']}" for one in mistakes[:5])
            raise InvalidParams(message, {"code": "VALIDATION_ERROR", "errors": mistakes})
        return arguments

    def injected_arguments(self, **services: Any) -> JsonObject:
        """Return the arguments that the SDK supplies."""
        return {name: services.get(kind) for name, kind in self._services.items() if kind is not None}

    def result(self, value: Any) -> Any:
        """Return the result as JSON.

        Raises:
            PluginFault: it does not match the function's declared type.
        """
        json_value = to_json(value)
        mistakes: Problems = []
        if self._output is not None:
            self._output.read(json_value, "", mistakes)
        if mistakes:
            message = "; ".join(f"{one['path'] or 'it'} {one['message']}" for one in mistakes[:5])
            data = {"code": "output_validation_error", "errors": mistakes}
            raise PluginFault(f"{self._name} answered otherwise than it promised: {message}", data, code=INTERNAL_ERROR)
        return json_value

    def _parameter_schema(self, name: str, hint: Any) -> TypeSchema:
        try:
            return build_schema(hint)
        except TypeError as error:
            raise TypeError(f"{self._name}, parameter {name}: {error}") from None

    def _result_schema(self, hint: Any) -> TypeSchema | None:
        origin = typing.get_origin(hint)
        if origin is Generator:
            hint = typing.get_args(hint)[2]
        elif origin in (Iterator, AsyncIterator, AsyncGenerator):
            return None  # it yields events
        if hint is None or hint is Any:
            return None
        try:
            return build_schema(hint)
        except TypeError as error:
            raise TypeError(f"{self._name}, result: {error}") from None


def _parameters(function: Callable[..., Any]) -> list[str]:
    code = function.__code__
    if code.co_flags & _VARIADIC_FLAGS:
        raise TypeError(f"{function.__name__}: *args and **kwargs have no schema; name the parameters")
    if code.co_posonlyargcount:
        raise TypeError(f"{function.__name__}: parameters are given by name, so none may be positional only")
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return names[1:] if getattr(function, "__self__", None) is not None else names


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    code = function.__code__
    values = function.__defaults__ or ()
    positional = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(positional, values, strict=True)), **(function.__kwdefaults__ or {})}


def _service(name: str, hint: Any) -> str | None:
    for service, kind in _SERVICES.items():
        if hint is kind or (hint is None and name.strip("_") == service):
            return service
    return None
