/** What counts as a JSON-RPC 2.0 message. */
import { PluginFault } from "./faults.js";
import { type Json, type JsonObject } from "./json.js";
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
export declare function isId(value: unknown): value is Id;
/** The message as what it is, or undefined if it is none. */
export declare function sound(message: JsonObject): Request | Answer | undefined;
/** Whether an unsound object was to be an answer. Answering one could go back and forth for ever. */
export declare function meantAsAnswer(message: JsonObject): boolean;
/** What an unsound message is answered with, and under which id. */
export declare function refusal(message: JsonObject): [Id | null, PluginFault];
