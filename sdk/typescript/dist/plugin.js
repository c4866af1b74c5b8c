/** A plugin as its author declares it, and what its handlers may do while it runs. */
import { AsyncLocalStorage } from "node:async_hooks";
import { Artifacts } from "./artifacts.js";
import { Audit } from "./audit.js";
import { Conversation } from "./conversation.js";
import { HostGone } from "./faults.js";
import { Served } from "./handlers.js";
import { Http } from "./http.js";
import { Log } from "./log.js";
import { Rate } from "./rate.js";
import { asksForScopes } from "./scopes.js";
import { Secrets } from "./secrets.js";
import { takeStdio } from "./stdio.js";
import { Storage } from "./storage.js";
import { System } from "./system.js";
import { Cache, KeyValue } from "./values.js";
export class Plugin {
    name;
    version;
    namespace;
    storage;
    keyvalue;
    cache;
    artifacts;
    rate;
    audit;
    http;
    secrets;
    #options;
    #methods = [];
    #tools = [];
    #handlers = new Map(); // by the name on the wire
    #settings = { config: {}, projects: new Map() };
    #current = new AsyncLocalStorage();
    #log;
    #system;
    #conversation;
    constructor(options) {
        this.name = options.name;
        this.version = options.version;
        this.namespace = options.namespace ?? "paddock";
        const ask = (method, params) => this.request(method, params);
        this.storage = new Storage(ask, this.namespace);
        this.keyvalue = new KeyValue(ask, this.namespace);
        this.cache = new Cache(ask, this.namespace);
        this.artifacts = new Artifacts(ask, this.namespace);
        this.rate = new Rate(ask, this.namespace);
        this.audit = new Audit(ask, this.namespace);
        this.http = new Http(ask, this.namespace);
        this.secrets = new Secrets(ask, this.namespace);
        if (!Number.isInteger(options.concurrency ?? 1) || (options.concurrency ?? 1) < 1) {
            throw new RangeError("concurrency must be a whole number from 1");
        }
        this.#options = options;
        this.#log = this.#logTo((line) => process.stderr.write(line));
        for (const [name, handler] of Object.entries(options.methods ?? {})) {
            this.method(name, handler);
        }
    }
    tool(name, ...rest) {
        this.#serve(`${this.name}.${name}`, rest);
        this.#tools.push(name);
        return this;
    }
    method(name, ...rest) {
        this.#serve(name, rest);
        this.#methods.push(name);
        return this;
    }
    /** Be told of a moment in a session, e.g. `on_session_start`. */
    hook(name, handler) {
        if (asksForScopes(handler)) {
            throw new TypeError(`${name}: a hook tells of a moment, and nobody's scopes`);
        }
        return this.#serve(`${this.namespace}.hook.${name}`, [handler]);
    }
    #serve(wireName, rest) {
        if (this.#conversation) {
            throw new Error(`${wireName} comes too late: the plugin is already running`);
        }
        if (this.#handlers.has(wireName)) {
            throw new Error(`${wireName} has a handler already`);
        }
        const [schemas, handler] = rest.length === 1 ? [{}, rest[0]] : rest;
        if (this.namespace === "kaged" && asksForScopes(handler)) {
            const instead = "the manifest's required_scopes are checked by the host";
            throw new TypeError(`${wireName}: its caller's scopes are not told to a kaged plugin; ${instead}`);
        }
        this.#handlers.set(wireName, new Served(schemas, handler));
        return this;
    }
    // --- what a handler may do ----------------------------------------------------------------------------------------
    /** The newest settings that were accepted. */
    get config() {
        return this.#settings.config;
    }
    /** The projects that use this plugin, each with its settings. */
    get projects() {
        return this.#settings.projects;
    }
    /** Writes to stderr, which the host keeps as the plugin's log. */
    get log() {
        return this.#log;
    }
    /** Announce something to the host, which does not answer. */
    notify(name, params = {}) {
        if (!this.#options.notifications?.includes(name)) {
            throw new Error(`'${name}' is not among the notifications of this plugin`);
        }
        this.#running().say({ method: name, params });
    }
    /**
     * Ask the host for something. Inside a handler the request counts as part of its call.
     *
     * @throws HostRefused: it answered with an error. HostGone: it closed the pipe.
     */
    async request(method, params = {}) {
        const token = this.#current.getStore()?.token;
        return this.#running().questions.ask(method, token === undefined ? params : { ...params, _call: token });
    }
    #running() {
        if (!this.#conversation) {
            throw new Error("the plugin is not running; call start()");
        }
        if (this.#system?.phase !== "running") {
            throw new Error("nothing may be said before the handshake is over: the host would end the plugin");
        }
        return this.#conversation;
    }
    // --- running ------------------------------------------------------------------------------------------------------
    /** Serve the host on stdin and stdout until it says shutdown or closes the pipe; then the process ends. */
    async start() {
        const stdio = takeStdio();
        const conversation = this.connect(stdio);
        stdio.feed(conversation);
        await conversation.over;
        process.exit(await this.shutDown());
    }
    /** Begin a conversation over other pipes than the process's own. For tests, and for other ways to carry lines. */
    connect(surroundings) {
        if (this.#conversation) {
            throw new Error("the plugin is already running");
        }
        const { concurrency = 16, onConfigUpdate = () => undefined } = this.#options;
        this.#log = this.#logTo(surroundings.log);
        this.#system = new System(() => this.#introduction(), this.#settings, onConfigUpdate, this.#log);
        this.#conversation = new Conversation({
            send: surroundings.send,
            namespace: this.namespace,
            concurrency,
            handlers: this.#handlers,
            system: this.#system,
            log: this.#log,
            current: this.#current,
        });
        return this.#conversation;
    }
    /** Say goodbye; gives the exit code. */
    async shutDown() {
        try {
            await this.#options.onShutdown?.();
        }
        catch (error) {
            if (error instanceof HostGone) {
                return 0;
            }
            // What it should have kept may be lost: the exit code must say so.
            this.#log.error("the last handler failed", { stack: error instanceof Error ? error.stack : String(error) });
            return 1;
        }
        return 0;
    }
    #introduction() {
        const { notifications = [], capabilitiesUsed = [] } = this.#options;
        return { name: this.name, version: this.version, methods: this.#methods, tools: this.#tools, notifications, capabilitiesUsed };
    }
    #logTo(write) {
        return new Log(this.name, process.env[`${this.namespace.toUpperCase()}_LOG_LEVEL`], write, () => {
            const request_id = this.#current.getStore()?.request_id;
            return request_id ? { request_id } : {};
        });
    }
}
/** A plugin to add tools, methods and hooks to, and then to start. */
export function createPlugin(options) {
    return new Plugin(options);
}
