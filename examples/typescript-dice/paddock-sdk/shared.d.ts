// Built by `npm run build` in sdk/typescript from the source with SHA-256 86455de4f6fdcfd6a88a925d1049100acc5d47a8f103c75df97facdeb2898932.
import { AsyncLocalStorage } from 'node:async_hooks';

/** What can stand on the wire. */
type Json = null | boolean | number | string | readonly Json[] | JsonObject;
interface JsonObject {
    readonly [name: string]: Json;
}

/** The plugin's own tables, which the host keeps: SQL goes out as a request, rows come back. */

type Ask = (method: string, params: JsonObject) => Promise<Json>;
type Row = Readonly<Record<string, Json>>;
/** What a query found. */
interface Rows<R = Row> {
    readonly rows: readonly R[];
    readonly columns: readonly string[];
}
/**
 * Statements, one a call.
 *
 * All reject with HostRefused if a statement is wrong, and with CapabilityDenied if the plugin was not granted it.
 */
interface Statements {
    /** Read with a SELECT. */
    query<R = Row>(sql: string, params?: readonly Json[]): Promise<Rows<R>>;
    /** Write or define tables; gives the number of rows affected. */
    exec(sql: string, params?: readonly Json[]): Promise<number>;
}
/** Statements that take effect together, or not at all. */
interface Together extends Statements {
    /** What the call is going to answer, kept with the transaction; for a call whose recovery is `atomic`. */
    answers(result: Json): void;
}
/** A transaction that its holder ends. The host ends one that takes too long. */
interface Transaction extends Together {
    commit(): Promise<void>;
    rollback(): Promise<void>;
}
declare class Speaker implements Statements {
    protected readonly ask: Ask;
    protected readonly prefix: string;
    private readonly within;
    constructor(ask: Ask, prefix: string, within: JsonObject);
    query<R = Row>(sql: string, params?: readonly Json[]): Promise<Rows<R>>;
    exec(sql: string, params?: readonly Json[]): Promise<number>;
}
/** Each statement is a transaction of its own, unless one was begun. */
declare class Storage extends Speaker {
    constructor(ask: Ask, namespace: string);
    /** The names of the plugin's tables. */
    schema(): Promise<readonly string[]>;
    /** A transaction that the caller commits or rolls back. `transaction` does it by itself. */
    begin(): Promise<Transaction>;
    /** Run statements together: kept when `work` is done, undone when it throws. */
    transaction<T>(work: (statements: Together) => Promise<T>): Promise<T>;
}

/** Big bytes, which travel beside the messages and are kept by the host under an address. */

/** Which part of an artifact; the whole where nothing is said. */
interface Part {
    readonly offset?: number;
    readonly length?: number;
}
/**
 * What the plugin keeps, and what it was handed. Needs `host:artifacts`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it, and with PluginFault if bytes got lost on the way.
 */
declare class Artifacts {
    #private;
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** Keep bytes, or the content of the file at a path; gives the address. */
    put(content: Uint8Array | string, mediaType?: string): Promise<string>;
    /** The whole, or a part of it. */
    get(uri: string, part?: Part): Promise<Buffer>;
    /** Read it a piece at a time, for what is too big to be held at once. */
    read(uri: string, { offset, length }?: Part): AsyncGenerator<Buffer, void, undefined>;
    /** Keep it no longer; tells whether it was the plugin's. */
    delete(uri: string): Promise<boolean>;
}

/** A word of the plugin's own in the host's ledger, beside the call that it serves. */

/** Every plugin has it. */
declare class Audit {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** Tells whether it was kept; above 50 a second it is not. */
    write(action: string, details?: JsonObject): Promise<boolean>;
}

/** What counts as a JSON-RPC 2.0 message. */

type Id = number | string;
/** An answer to a request of ours: its `result`, or its `error`. */
interface Answer {
    readonly id: Id;
    readonly result?: Json;
    readonly error?: JsonObject;
}

/** One call as a handler sees it: who is calling, whether the caller still waits, and a way to report progress. */

/** Who is calling. Project, agent and session are all known, or all null for a call of the host's own. */
interface Context {
    readonly operator_id: string | null;
    readonly project_id: string | null;
    readonly agent_path: string | null;
    readonly session_id: string | null;
    readonly request_id: string;
    /** Those of the callable's `required_scopes` that the caller has. */
    readonly scopes: readonly string[];
    /** Of a call with an effect: the same when the host makes it again to find out its outcome; null otherwise. */
    readonly idempotency_key: string | null;
}
/** What a handler is given beside its parameters. */
interface Call extends Context {
    /** Fires when the caller has given up. Hand it to `fetch`, timers and the like. */
    readonly signal: AbortSignal;
    /** Report progress to the caller. The host gives a call that moves on more time. */
    progress(done: number, total?: number, message?: string): void;
    /** Send the caller an event before the result. */
    event(event: JsonObject): void;
    /**
     * Let what came meanwhile be read, pings too. A handler that computes for long awaits this now and then.
     *
     * @throws Cancelled: the caller has given up. Left uncaught, it answers the call.
     */
    checkpoint(): Promise<void>;
}
/** A call that a handler is working on. */
declare class Underway implements Call {
    #private;
    readonly operator_id: string | null;
    readonly project_id: string | null;
    readonly agent_path: string | null;
    readonly session_id: string | null;
    readonly request_id: string;
    readonly scopes: readonly string[];
    readonly idempotency_key: string | null;
    readonly id: Id | undefined;
    readonly signal: AbortSignal;
    constructor(id: Id | undefined, context: Context, token: string | undefined, tell: (event: object) => void);
    /** What names the call to the host; work that outlives its call goes on in the plugin's own name. */
    get token(): string | undefined;
    progress(done: number, total?: number, message?: string): void;
    event(event: JsonObject): void;
    checkpoint(): Promise<void>;
    /** Ask the handler to stop. */
    stop(reason: Error): void;
    finish(): void;
}

/** The part of JSON Schema that handlers are checked with, and the TypeScript type that a schema stands for. */

type TypeName = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object";
type Schema = boolean | SchemaObject;
/** Any other keyword is refused when the handler is registered: a check that is not made must not look like one. */
interface SchemaObject {
    readonly type?: TypeName | readonly TypeName[];
    readonly enum?: readonly Json[];
    readonly const?: Json;
    readonly properties?: Readonly<Record<string, Schema>>;
    readonly required?: readonly string[];
    readonly additionalProperties?: Schema;
    readonly minProperties?: number;
    readonly maxProperties?: number;
    readonly items?: Schema;
    readonly minItems?: number;
    readonly maxItems?: number;
    readonly uniqueItems?: boolean;
    readonly minLength?: number;
    readonly maxLength?: number;
    readonly pattern?: string;
    readonly minimum?: number;
    readonly maximum?: number;
    readonly exclusiveMinimum?: number;
    readonly exclusiveMaximum?: number;
    readonly multipleOf?: number;
    readonly anyOf?: readonly Schema[];
    readonly oneOf?: readonly Schema[];
    readonly allOf?: readonly Schema[];
    readonly not?: Schema;
    readonly $ref?: string;
    readonly $defs?: Readonly<Record<string, Schema>>;
    readonly $schema?: string;
    readonly $comment?: string;
    readonly title?: string;
    readonly description?: string;
    readonly default?: Json;
    readonly examples?: readonly Json[];
    readonly format?: string;
    readonly deprecated?: boolean;
}
/** The type of the values that fit a schema. Where it is not known, e.g. behind a `$ref`, any JSON. */
type FromSchema<S> = S extends {
    readonly const: infer C;
} ? C : S extends {
    readonly enum: readonly (infer E)[];
} ? E : S extends {
    readonly anyOf: readonly (infer Branch)[];
} ? FromSchema<Branch> : S extends {
    readonly oneOf: readonly (infer Branch)[];
} ? FromSchema<Branch> : S extends {
    readonly type: readonly (infer T)[];
} ? OfType<T, S> : S extends {
    readonly type: infer T;
} ? OfType<T, S> : Json;
type OfType<T, S> = T extends "string" ? string : T extends "number" | "integer" ? number : T extends "boolean" ? boolean : T extends "null" ? null : T extends "array" ? S extends {
    readonly items: infer I;
} ? readonly FromSchema<I>[] : readonly Json[] : T extends "object" ? OfObject<S> : Json;
type OfObject<S> = S extends {
    readonly properties: infer P;
} ? Flat<{
    readonly [K in keyof P & Required<S>]: FromSchema<P[K]>;
} & {
    readonly [K in Exclude<keyof P, Required<S>>]?: FromSchema<P[K]>;
}> : JsonObject;
type Required<S> = S extends {
    readonly required: readonly (infer R)[];
} ? R : never;
type Flat<T> = {
    [K in keyof T]: T[K];
};

/** An author's handlers: which method each serves, what it is checked with, and how one is run. */

/** What a handler gives: the result, a promise of it, or a generator that yields on its way to it. */
type Given<R> = R | Promise<R> | Generator<unknown, R, unknown> | AsyncGenerator<unknown, R, unknown>;
type Handler<P = JsonObject, R = unknown> = (params: P, call: Call) => Given<R>;
/** What goes in and what comes out. A side without a schema is not checked. `paddock plugin sync` copies all of it. */
interface Schemas<I extends Schema = Schema, O extends Schema = Schema> {
    /** What it is for, in the words that people and models read. */
    readonly description?: string;
    readonly input?: I;
    readonly output?: O;
}
/** A handler whose types are those of its schemas. */
type Typed<S> = Handler<S extends {
    readonly input: infer I;
} ? FromSchema<I> : JsonObject, S extends {
    readonly output: infer O;
} ? FromSchema<O> : unknown>;
/** A handler with its checks compiled. */
declare class Served {
    #private;
    /** As it was declared. */
    readonly schemas: Schemas;
    /** @throws TypeError: a schema cannot be used. */
    constructor(schemas: Schemas, handler: Handler<never>);
    /** The result of one call, checked on both sides. What a generator yields goes out as it comes. */
    run(params: JsonObject, call: Call): Promise<unknown>;
}

/** Web services, asked through the host, which checks and records each request. */

/** A header is a text, or names a secret of the manifest that the host writes in. */
type HeaderValue = string | {
    readonly secret: string;
    readonly prefix?: string;
};
/** What to ask for; one of `body` and `json` at most. */
interface HttpRequest {
    readonly url: string;
    readonly method?: string;
    readonly headers?: Readonly<Record<string, HeaderValue>>;
    readonly body?: string | Uint8Array;
    readonly json?: Json;
    /** In seconds, with all repetitions. */
    readonly timeout?: number;
    readonly max_bytes?: number;
    readonly redirects?: boolean;
}
/** How often and after how many seconds it is tried again, where that does no harm. */
interface Again {
    readonly retries?: number;
    readonly backoff?: number;
}
/** The answer, whatever its status. The names of headers are in lower case; the body is text where it is text. */
interface HttpAnswer {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string | Uint8Array;
    readonly url: string;
    readonly attempts: number;
}
/** Needs `host:http`. What changes something is sent for a call that declares it; it bears the call's own key. */
declare class Http {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /**
     * The answer of a web service.
     *
     * @throws CapabilityDenied: the plugin may not go there, or the call does not say that it changes something outside.
     *   HostRefused: there was no answer.
     */
    fetch(request: string | HttpRequest, again?: Again): Promise<HttpAnswer>;
}

/** Structured log lines on stderr, one JSON object each. Stdout belongs to the protocol. */
declare const LEVELS: readonly ["debug", "info", "warning", "error"];
type Level = (typeof LEVELS)[number];
type Fields = Readonly<Record<string, unknown>>;
/**
 * Writes what is at or above a level. Fields that are no JSON are written as their text.
 *
 * `about` is asked what stands in every line: the id of the call under way, for instance.
 */
declare class Log {
    #private;
    constructor(plugin: string, level?: string, write?: (line: string) => void, about?: () => Fields);
    debug(message: string, fields?: Fields): void;
    info(message: string, fields?: Fields): void;
    warning(message: string, fields?: Fields): void;
    error(message: string, fields?: Fields): void;
}

/** What we ask the host, and its answers. */

declare class Questions {
    #private;
    constructor(send: (message: object) => void);
    /**
     * The host's answer.
     *
     * @throws HostRefused: it is an error. HostGone: it will never come. TypeError, RangeError: it cannot be sent.
     */
    ask(method: string, params: JsonObject): Promise<Json>;
    /** Hand an answer to the handler that asked; false if none did. */
    answered(answer: Answer): boolean;
    /** No answer will come any more. */
    close(): void;
}

/** What the host says to every plugin: the handshake, its settings, the projects that use it. */

/** What the handshake says about a plugin. */
interface Introduction {
    readonly name: string;
    readonly version: string;
    readonly methods: readonly string[];
    readonly tools: readonly string[];
    readonly notifications: readonly string[];
    readonly capabilitiesUsed: readonly string[];
}
/** What may change while a plugin runs. */
interface Settings {
    config: JsonObject;
    readonly projects: Map<string, JsonObject>;
}
declare class System {
    #private;
    phase: "new" | "initializing" | "running";
    constructor(introduce: () => Introduction, describe: () => JsonObject, settings: Settings, onConfigUpdate: (config: JsonObject) => unknown, log: Log);
    owns(method: string): boolean;
    /** The result of one of these methods. */
    serve(method: string, params: JsonObject): Promise<unknown>;
}

/**
 * One conversation with a host: what it says is sorted on arrival, calls run side by side, answers go back.
 *
 * Calls start in the order in which they came, at most `concurrency` at a time. Requests of the host's own (settings,
 * projects) are served one after the other, and a call that came after one starts after it. Three things never wait: a
 * ping, the answer to a question of ours, and the word that a call is no longer wanted.
 */

interface Parts {
    /** Sends one line; throws HostGone if the host reads no more. */
    readonly send: (line: string) => void;
    readonly namespace: string;
    readonly concurrency: number;
    readonly handlers: ReadonlyMap<string, Served>;
    readonly system: System;
    readonly log: Log;
    /** The call that the running code belongs to. */
    readonly current: AsyncLocalStorage<Underway>;
}
declare class Conversation {
    #private;
    /** Resolves when the host said shutdown or is gone, and nothing is under way any more. */
    readonly over: Promise<void>;
    readonly questions: Questions;
    constructor(parts: Parts);
    receive(piece: Uint8Array): void;
    /** The host will say nothing more. What it asked for is still answered. */
    closed(): void;
    /** The host reads no more answers: there is nothing left to do. */
    lost(): void;
    /**
     * Send one message.
     *
     * @throws TypeError, RangeError: it cannot be sent. HostGone: the host reads no more.
     */
    say(message: object): void;
}

/** Asking before doing something that must not be done too often. */

/** How much it counts, and how much fits in a minute. */
interface Cost {
    readonly cost?: number;
    readonly perMinute?: number;
}
/** Whether it may be done now, and if not, in how many seconds. */
interface Allowance {
    readonly allowed: boolean;
    readonly retry_after: number;
}
/** Needs `host:rate`; rejects with CapabilityDenied if the plugin was not granted it. */
declare class Rate {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** Whether it may be done now. If so, it is counted. */
    limit(bucket: string, { cost, perMinute }?: Cost): Promise<Allowance>;
}

/** Secrets that the plugin declares by name. Never log one, and keep none longer than a call. */

/** Needs `host:secrets`; rejects with CapabilityDenied for a name that the manifest does not declare. */
declare class Secrets {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** The value: the user's own, or else the shared one; undefined where it is not set. */
    get(name: string): Promise<string | undefined>;
}

/** JSON values by key that the host keeps for the plugin: for a while (`cache`), or for good (`keyvalue`). */

/**
 * Values that may be gone at any time. Needs `host:cache`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it.
 */
declare class Cache {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** The value, or undefined if there is none any more. */
    get(key: string): Promise<Json | undefined>;
    /** Keep a value for so many seconds, or as long as the host thinks right. */
    set(key: string, value: Json, ttl?: number): Promise<void>;
    delete(key: string): Promise<void>;
}
/**
 * Values that outlive the plugin's process and the host's. Needs `host:storage`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it.
 */
declare class KeyValue {
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** The value, or undefined if there is none. */
    get(key: string): Promise<Json | undefined>;
    /** Keep a value; it is durable when this resolves. */
    put(key: string, value: Json): Promise<void>;
    delete(key: string): Promise<void>;
    /** All keys that begin so, page by page. */
    keys(prefix?: string): AsyncGenerator<string, void, undefined>;
}

/** A plugin as its author declares it, and what its handlers may do while it runs. */

interface PluginOptions {
    /** As in the manifest; the host ends a plugin that answers to another name. */
    readonly name: string;
    /** As in the manifest. */
    readonly version: string;
    /** How the host's own methods are called: `kaged` for a plugin with that manifest. */
    readonly namespace?: "paddock" | "kaged";
    /** Methods by name, e.g. `presets.list`; `plugin.method` adds others with schemas. */
    readonly methods?: Readonly<Record<string, Handler>>;
    /** What the plugin may announce. */
    readonly notifications?: readonly string[];
    /** The capabilities that it cannot do without; it may use all that were granted, listed here or not. */
    readonly capabilitiesUsed?: readonly string[];
    /** How many calls may be under way at a time; the others wait. 1 makes it one after the other. */
    readonly concurrency?: number;
    /** Is given every new configuration before it counts; throws ConfigInvalid to refuse it. */
    readonly onConfigUpdate?: (config: JsonObject) => unknown;
    /** Is called once before the process ends. If it fails, the process ends with 1. */
    readonly onShutdown?: () => unknown;
}
/** Where a plugin's messages go and its log is written; the process's own pipes unless a test says otherwise. */
interface Surroundings {
    readonly send: (line: string) => void;
    readonly log: (line: string) => void;
}
declare class Plugin {
    #private;
    readonly name: string;
    readonly version: string;
    readonly namespace: string;
    readonly storage: Storage;
    readonly keyvalue: KeyValue;
    readonly cache: Cache;
    readonly artifacts: Artifacts;
    readonly rate: Rate;
    readonly audit: Audit;
    readonly http: Http;
    readonly secrets: Secrets;
    constructor(options: PluginOptions);
    /** Serve a tool; on the wire it is `<plugin>.<tool>`. Parameters and result are checked against the schemas. */
    tool<const S extends Schemas>(name: string, schemas: S, handler: Typed<S>): this;
    tool(name: string, handler: Handler): this;
    /** Serve a method, e.g. `presets.list`. Parameters and result are checked against the schemas. */
    method<const S extends Schemas>(name: string, schemas: S, handler: Typed<S>): this;
    method(name: string, handler: Handler): this;
    /** Serve a hook: the host calls it at a moment in a session, e.g. `on_session_start`. */
    hook(name: string, handler: Handler): this;
    /** The newest settings that were accepted. */
    get config(): JsonObject;
    /** The projects that use this plugin, each with its settings. */
    get projects(): ReadonlyMap<string, JsonObject>;
    /** Writes to stderr, which the host keeps as the plugin's log. */
    get log(): Log;
    /** Announce something to the host, which does not answer. */
    notify(name: string, params?: JsonObject): void;
    /**
     * Ask the host for something. Inside a handler the request counts as part of its call.
     *
     * @throws HostRefused: it answered with an error. HostGone: it closed the pipe.
     */
    request(method: string, params?: JsonObject): Promise<Json>;
    /** Serve the host on stdin and stdout until it says shutdown or closes the pipe; then the process ends. */
    start(): Promise<never>;
    /** Begin a conversation over other pipes than the process's own. For tests, and for other ways to carry lines. */
    connect(surroundings: Surroundings): Conversation;
    /** Say goodbye; gives the exit code. */
    shutDown(): Promise<number>;
    /** The tools and methods as a manifest declares them, as far as they are declared here. */
    describe(): JsonObject;
}
/** A plugin to add tools, methods and hooks to, and then to start. */
declare function createPlugin(options: PluginOptions): Plugin;

export { Artifacts, Audit, Cache, Http, KeyValue, Log, Plugin, Rate, Secrets, Storage, createPlugin };
export type { Again, Allowance, Call, Context, Cost, Fields, FromSchema, Given, Handler, HeaderValue, HttpAnswer, HttpRequest, Json, JsonObject, Level, Part, PluginOptions, Row, Rows, Schema, SchemaObject, Schemas, Statements, Together, Transaction, Typed };
