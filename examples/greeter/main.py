"""The smallest whole plugin: one tool."""

from typing import Annotated, TypedDict

from paddock_sdk import Context, Plugin

plugin = Plugin("greeter", "1.0.0")


class Greeting(TypedDict):
    text: str


@plugin.tool
def greet(name: Annotated[str, "Whom to greet", {"minLength": 1, "maxLength": 200}], context: Context) -> Greeting:
    """Greet a person by name."""
    plugin.log.info("greeting", request=context.request_id)
    return {"text": f"Hello, {name}!"}


if __name__ == "__main__":
    plugin.run()
