/**
 * A plugin run inside a test, with the test in the host's place: no process and no pipe, but the same lines.
 *
 *     const host = await hostFor(plugin, { answers: { "storage.query": () => ({ rows: [], columns: [] }) } });
 *     assert.deepEqual(await host.call("greet", { name: "Ada" }), { text: "Hello, Ada" });
 *     assert.equal(await host.shutdown(), 0);
 */
import type { Context } from "./call.js";
import type { FakeTables } from "./fake-tables.js";
import { type Json, type JsonObject } from "./json.js";
import type { Plugin } from "./plugin.js";
export { FakeTables, type Statement, type StatementAnswer, type TablesOptions, type Told } from "./fake-tables.js";
export interface HostOptions {
    readonly config?: JsonObject;
    /** Projects that use the plugin, each with its configuration. */
    readonly projects?: Readonly<Record<string, JsonObject>>;
    /** What the host answers, by method without its namespace; nothing else is granted. Throw a PluginFault to refuse. */
    readonly answers?: Readonly<Record<string, (params: JsonObject) => unknown>>;
    /** What answers `storage`, where `answers` has nothing for it. */
    readonly tables?: FakeTables;
}
export interface CallOptions {
    readonly context?: Partial<Context>;
    /** Cancels the call. */
    readonly signal?: AbortSignal;
    readonly onEvent?: (event: JsonObject) => void;
}
/** Something the plugin asked the host for, and the number of the call it belongs to. */
export interface Asked {
    readonly method: string;
    readonly params: JsonObject;
    readonly call: number | null;
}
/** The plugin answered a call with an error. */
export declare class CallFailed extends Error {
    readonly code: number;
    readonly data: Json;
    readonly name = "CallFailed";
    constructor(code: number, message: string, data: Json);
}
/** A running plugin, greeted and configured. Give it a plugin of its own: one conversation is all it can have. */
export declare function hostFor(plugin: Plugin, options?: HostOptions): Promise<FakeHost>;
export declare class FakeHost {
    #private;
    /** What the plugin said of itself in the handshake. */
    introduction: JsonObject;
    readonly notifications: {
        readonly name: string;
        readonly params: JsonObject;
    }[];
    readonly asked: Asked[];
    readonly log: JsonObject[];
    /** What the plugin wrote with `plugin.audit`, which needs no answer of the test: every plugin has it. */
    readonly audited: {
        readonly action: string;
        readonly details: JsonObject;
    }[];
    constructor(plugin: Plugin, options: HostOptions);
    /** The handshake, the settings and the projects. */
    greet(): Promise<void>;
    /** Call a tool by its short name, or anything by its name on the wire. */
    call(name: string, params?: JsonObject, options?: CallOptions): Promise<Json>;
    /** Fire a hook. */
    hook(name: string, params?: JsonObject, options?: CallOptions): Promise<Json>;
    /** Give the plugin new settings; rejects with CallFailed if it refuses them. */
    configure(config: JsonObject): Promise<void>;
    /** Say shutdown, wait for what is under way, and give the exit code that the process would have. */
    shutdown(): Promise<number>;
    /** Any request on the wire. */
    request(method: string, params: JsonObject, onEvent?: (event: JsonObject) => void): Promise<Json>;
    /** Any notification on the wire. */
    tell(method: string, params?: JsonObject): void;
}
