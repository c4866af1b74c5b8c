/** What counts as a JSON-RPC 2.0 message. */
import { INVALID_REQUEST, PluginFault } from "./faults.js";
import { isObject } from "./json.js";
/** A number that could not be echoed exactly is no id. */
export function isId(value) {
    return typeof value === "string" || Number.isSafeInteger(value);
}
/** The message as what it is, or undefined if it is none. */
export function sound(message) {
    if (message["jsonrpc"] !== "2.0" || ("id" in message && !isId(message["id"]))) {
        return undefined;
    }
    if ("method" in message) {
        return typeof message["method"] === "string" ? message : undefined;
    }
    const error = message["error"] ?? null;
    const whole = error === null ? "result" in message : isObject(error) && Number.isInteger(error["code"]);
    return whole && "id" in message ? message : undefined;
}
/** Whether an unsound object was to be an answer. Answering one could go back and forth for ever. */
export function meantAsAnswer(message) {
    return "result" in message || "error" in message;
}
/** What an unsound message is answered with, and under which id. */
export function refusal(message) {
    const id = message["id"];
    const why = "not a JSON-RPC 2.0 request (batches are not accepted)";
    return [isId(id) ? id : null, new PluginFault(why, undefined, INVALID_REQUEST)];
}
