/** What counts as a JSON-RPC 2.0 message. */

import { INVALID_REQUEST, PluginFault } from "./faults.js";
import { isObject, type Json, type JsonObject } from "./json.js";

export type Id = number | string;

/** A request, or a notification if it has no id. */
export interface Request {
  readonly id?: Id;
  readonly method: string;
  readonly params?: Json;
}

/** An answer to a request of ours: its `result`, or its `error`. */
export interface Answer {
  readonly id: Id;
  readonly result?: Json;
  readonly error?: JsonObject;
}

/** A number that could not be echoed exactly is no id. */
export function isId(value: unknown): value is Id {
  return typeof value === "string" || Number.isSafeInteger(value);
}

/** The message as what it is, or undefined if it is none. */
export function sound(message: JsonObject): Request | Answer | undefined {
  if (message["jsonrpc"] !== "2.0" || ("id" in message && !isId(message["id"]))) {
    return undefined;
  }
  if ("method" in message) {
    return typeof message["method"] === "string" ? (message as unknown as Request) : undefined;
  }
  const error = message["error"] ?? null;
  const whole = error === null ? "result" in message : isObject(error) && Number.isInteger(error["code"]);
  return whole && "id" in message ? (message as unknown as Answer) : undefined;
}

/** Whether an unsound object was to be an answer. Answering one could go back and forth for ever. */
export function meantAsAnswer(message: JsonObject): boolean {
  return "result" in message || "error" in message;
}

/** What an unsound message is answered with, and under which id. */
export function refusal(message: JsonObject): [Id | null, PluginFault] {
  const id = message["id"];
  const why = "not a JSON-RPC 2.0 request (batches are not accepted)";
  return [isId(id) ? id : null, new PluginFault(why, undefined, INVALID_REQUEST)];
}
