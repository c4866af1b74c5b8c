// Built by `npm run build` in sdk/typescript from the source with SHA-256 86455de4f6fdcfd6a88a925d1049100acc5d47a8f103c75df97facdeb2898932.
import { Row, Json, JsonObject, Context, Plugin } from './index.js';
import 'node:async_hooks';

/**
 * Tables for tests, which a test fills with answers: what each statement finds or changes.
 *
 *     const tables = new FakeTables({ "SELECT name FROM cats WHERE age > ?": [{ name: "Mia" }] });
 *     const host = await hostFor(plugin, { tables });
 *
 * No SQL is run, since node has no database of its own that all its versions share. A statement with a slip in it passes
 * if the test has the same slip, and what one statement writes no other one reads. That the statements are right is seen
 * in real tables, with `paddock plugin test`. Transactions are as there, but for one thing: what the host would let wait
 * for the end of another one is refused at once.
 */

/** The rows that a query finds, or how many a statement changes. */
type StatementResult = readonly Row[] | number;
/** The same, or a function of the parameters, which may throw a PluginFault as the host would answer with one. */
type StatementAnswer = StatementResult | ((params: readonly Json[]) => StatementResult);
/** A statement that the plugin made. */
interface Statement {
    readonly sql: string;
    readonly params: readonly Json[];
    readonly transaction: string | null;
}
interface TablesOptions {
    /** Whether `storage:write` was granted, and not only `storage:read`. */
    readonly writable?: boolean;
    /** The names that `schema` gives. */
    readonly names?: readonly string[];
}
declare class FakeTables {
    #private;
    /** Every statement that was answered. */
    readonly made: Statement[];
    /** What was written to stay: by itself, or in a transaction that was committed. */
    readonly kept: Statement[];
    /** @param answers By statement; how it is broken into lines does not matter. */
    constructor(answers?: Readonly<Record<string, StatementAnswer>>, options?: TablesOptions);
    /** What the host would answer to `storage.<operation>`. */
    answer(operation: string, params: JsonObject): JsonObject;
}

/**
 * A plugin run inside a test, with the test in the host's place: no process and no pipe, but the same lines.
 *
 *     const host = await hostFor(plugin, { answers: { "storage.query": () => ({ rows: [], columns: [] }) } });
 *     assert.deepEqual(await host.call("greet", { name: "Ada" }), { text: "Hello, Ada" });
 *     assert.equal(await host.shutdown(), 0);
 */

interface HostOptions {
    readonly config?: JsonObject;
    /** Projects that use the plugin, each with its configuration. */
    readonly projects?: Readonly<Record<string, JsonObject>>;
    /** What the host answers, by method without its namespace; nothing else is granted. Throw a PluginFault to refuse. */
    readonly answers?: Readonly<Record<string, (params: JsonObject) => unknown>>;
    /** What answers `storage`, where `answers` has nothing for it. */
    readonly tables?: FakeTables;
}
interface CallOptions {
    readonly context?: Partial<Context>;
    /** Cancels the call. */
    readonly signal?: AbortSignal;
    readonly onEvent?: (event: JsonObject) => void;
}
/** Something the plugin asked the host for, and the number of the call it belongs to. */
interface Asked {
    readonly method: string;
    readonly params: JsonObject;
    readonly call: number | null;
}
/** The plugin answered a call with an error. */
declare class CallFailed extends Error {
    readonly code: number;
    readonly data: Json;
    readonly name = "CallFailed";
    constructor(code: number, message: string, data: Json);
}
/** A running plugin, greeted and configured. Give it a plugin of its own: one conversation is all it can have. */
declare function hostFor(plugin: Plugin, options?: HostOptions): Promise<FakeHost>;
declare class FakeHost {
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

export { CallFailed, FakeHost, FakeTables, hostFor };
export type { Asked, CallOptions, HostOptions, Statement, StatementAnswer, StatementResult, TablesOptions };
