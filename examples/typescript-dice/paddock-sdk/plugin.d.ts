/** A plugin as its author declares it, and what its handlers may do while it runs. */
import { Artifacts } from "./artifacts.js";
import { Audit } from "./audit.js";
import { Conversation } from "./conversation.js";
import { type Handler, type Schemas, type Typed } from "./handlers.js";
import { Http } from "./http.js";
import type { Json, JsonObject } from "./json.js";
import { Log } from "./log.js";
import { Rate } from "./rate.js";
import { Secrets } from "./secrets.js";
import { Storage } from "./storage.js";
import { Cache, KeyValue } from "./values.js";
export interface PluginOptions {
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
    /** What it uses of the capabilities that its manifest asks for. */
    readonly capabilitiesUsed?: readonly string[];
    /** How many calls may be under way at a time; the others wait. 1 makes it one after the other. */
    readonly concurrency?: number;
    /** Is given every new configuration before it counts; throws ConfigInvalid to refuse it. */
    readonly onConfigUpdate?: (config: JsonObject) => unknown;
    /** Is called once before the process ends. If it fails, the process ends with 1. */
    readonly onShutdown?: () => unknown;
}
/** Where a plugin's messages go and its log is written; the process's own pipes unless a test says otherwise. */
export interface Surroundings {
    readonly send: (line: string) => void;
    readonly log: (line: string) => void;
}
export declare class Plugin {
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
    /** Be told of a moment in a session, e.g. `on_session_start`. */
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
}
/** A plugin to add tools, methods and hooks to, and then to start. */
export declare function createPlugin(options: PluginOptions): Plugin;
