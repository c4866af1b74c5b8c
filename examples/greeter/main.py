"""The smallest whole plugin: one tool."""

from paddock_sdk import Context, JsonObject, Plugin

plugin = Plugin("greeter", "1.0.0")


@plugin.tool
def greet(params: JsonObject, context: Context) -> JsonObject:
    plugin.log.info("greeting", request=context.request_id)
    return {"text": f"Hello, {params['name']}!"}


if __name__ == "__main__":
    plugin.run()
