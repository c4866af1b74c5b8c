// Built by `npm run build` in sdk/typescript from the source with SHA-256 86455de4f6fdcfd6a88a925d1049100acc5d47a8f103c75df97facdeb2898932.
import { PluginFault, METHOD_NOT_FOUND, InvalidParams, STORAGE_ACCESS_DENIED, RESOURCE_BUSY, lineOf, isObject, CAPABILITY_DENIED } from './shared.js';

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
class FakeTables {
    /** Every statement that was answered. */
    made = [];
    /** What was written to stay: by itself, or in a transaction that was committed. */
    kept = [];
    #answers;
    #options;
    #open;
    #begun = 0;
    /** @param answers By statement; how it is broken into lines does not matter. */
    constructor(answers = {}, options = {}) {
        this.#answers = new Map(Object.entries(answers).map(([sql, answer]) => [onOneLine(sql), answer]));
        this.#options = options;
    }
    /** What the host would answer to `storage.<operation>`. */
    answer(operation, params) {
        if (operation !== "query" && operation !== "schema") {
            this.#requireWrite();
        }
        switch (operation) {
            case "query":
                return this.#query(params);
            case "exec":
                return this.#exec(params);
            case "schema":
                this.#takeTurn(params["transaction"]);
                return { tables: this.#options.names ?? [] };
            case "begin":
                this.#takeTurn(undefined);
                this.#open = { name: `tx_${++this.#begun}`, written: [] };
                return { transaction: this.#open.name };
            case "commit":
            case "rollback":
                return this.#end(operation, params["transaction"]);
            default:
                throw new PluginFault(`there is no method storage.${operation}`, undefined, METHOD_NOT_FOUND);
        }
    }
    #query(params) {
        const { result, statement } = this.#run(params);
        if (typeof result === "number") {
            throw new TypeError(`the test answers a query with a number, and not with rows: ${statement.sql}`);
        }
        return found(result);
    }
    #exec(params) {
        const { result, statement } = this.#run(params);
        (this.#open?.written ?? this.kept).push(statement);
        return typeof result === "number" ? { rows_affected: result } : { rows_affected: result.length, ...found(result) };
    }
    #end(operation, transaction) {
        this.#takeTurn(transaction ?? "");
        if (operation === "commit") {
            this.kept.push(...(this.#open?.written ?? []));
        }
        this.#open = undefined;
        return {};
    }
    #run({ sql, params, transaction }) {
        if (typeof sql !== "string" || !Array.isArray(params)) {
            throw new InvalidParams("sql must be text, and params a list");
        }
        const statement = { sql, params, transaction: this.#takeTurn(transaction) };
        const answer = this.#answers.get(onOneLine(sql));
        if (answer === undefined) {
            throw new PluginFault(`the test has no answer for this statement: ${onOneLine(sql)}`, { code: "storage.sql" });
        }
        const result = typeof answer === "function" ? answer(statement.params) : answer;
        this.made.push(statement);
        return { result, statement };
    }
    #requireWrite() {
        if (this.#options.writable === false) {
            const why = "the statement is not allowed: storage:write was not granted";
            throw new PluginFault(why, { code: "storage_access_denied" }, STORAGE_ACCESS_DENIED);
        }
    }
    /** The transaction that is meant; there is one at a time, and nothing besides it. */
    #takeTurn(asked) {
        const open = this.#open?.name ?? null;
        if (asked === undefined && open !== null) {
            const why = "a transaction is under way in this plugin's storage: pass it along, or end it first";
            throw new PluginFault(why, { code: "storage.busy" }, RESOURCE_BUSY);
        }
        if (asked !== undefined && asked !== open) {
            throw new PluginFault(`there is no transaction ${String(asked)}`, { code: "storage.no_transaction" });
        }
        return open;
    }
}
function found(rows) {
    return { rows, columns: Object.keys(rows[0] ?? {}) };
}
function onOneLine(sql) {
    return sql.trim().replace(/\s+/g, " ");
}

/**
 * A plugin run inside a test, with the test in the host's place: no process and no pipe, but the same lines.
 *
 *     const host = await hostFor(plugin, { answers: { "storage.query": () => ({ rows: [], columns: [] }) } });
 *     assert.deepEqual(await host.call("greet", { name: "Ada" }), { text: "Hello, Ada" });
 *     assert.equal(await host.shutdown(), 0);
 */
/** The plugin answered a call with an error. */
class CallFailed extends Error {
    code;
    data;
    name = "CallFailed";
    constructor(code, message, data) {
        super(message);
        this.code = code;
        this.data = data;
    }
}
/** A running plugin, greeted and configured. Give it a plugin of its own: one conversation is all it can have. */
async function hostFor(plugin, options = {}) {
    const host = new FakeHost(plugin, options);
    await host.greet();
    return host;
}
class FakeHost {
    /** What the plugin said of itself in the handshake. */
    introduction = {};
    notifications = [];
    asked = [];
    log = [];
    /** What the plugin wrote with `plugin.audit`, which needs no answer of the test: every plugin has it. */
    audited = [];
    #plugin;
    #options;
    #conversation;
    #waiting = new Map();
    #lastId = 0;
    constructor(plugin, options) {
        this.#plugin = plugin;
        this.#options = options;
        this.#conversation = plugin.connect({
            send: (line) => queueMicrotask(() => this.#hear(JSON.parse(line))),
            log: (line) => void this.log.push(JSON.parse(line)),
        });
    }
    /** The handshake, the settings and the projects. */
    async greet() {
        const { config = {}, projects = {} } = this.#options;
        const asked = { plugin_name: this.#plugin.name, api_version: 1, storage_available: true };
        const params = { daemon_version: "0.0.0", ...asked, projects: Object.keys(projects) };
        this.introduction = (await this.request("initialize", params));
        this.tell("initialized");
        await this.configure(config);
        for (const [project, settings] of Object.entries(projects)) {
            await this.request("projects.activated", { project, config: settings });
        }
    }
    /** Call a tool by its short name, or anything by its name on the wire. */
    async call(name, params = {}, options = {}) {
        const wireName = name.includes(".") ? name : `${this.#plugin.name}.${name}`;
        const anonymous = { operator_id: null, project_id: null, agent_path: null, session_id: null, idempotency_key: null };
        const number = this.#lastId + 1;
        const context = { ...anonymous, request_id: `req_${number}`, ...options.context };
        const answer = this.request(wireName, { ...params, _context: context, _call: `call-${number}` }, options.onEvent);
        const cancel = () => this.tell(`${this.#plugin.namespace}.cancel`, { id: number });
        options.signal?.addEventListener("abort", cancel, { once: true });
        try {
            return await answer;
        }
        finally {
            options.signal?.removeEventListener("abort", cancel);
        }
    }
    /** Fire a hook. */
    hook(name, params = {}, options = {}) {
        return this.call(`${this.#plugin.namespace}.hook.${name}`, params, options);
    }
    /** Give the plugin new settings; rejects with CallFailed if it refuses them. */
    async configure(config) {
        await this.request("config.update", { config });
    }
    /** Say shutdown, wait for what is under way, and give the exit code that the process would have. */
    async shutdown() {
        this.tell("shutdown");
        await this.#conversation.over;
        return this.#plugin.shutDown();
    }
    /** Any request on the wire. */
    request(method, params, onEvent) {
        const id = ++this.#lastId;
        return new Promise((resolve, reject) => {
            this.#waiting.set(id, { resolve, reject, onEvent });
            this.#say({ id, method, params });
        });
    }
    /** Any notification on the wire. */
    tell(method, params = {}) {
        this.#say({ method, params });
    }
    #say(message) {
        this.#conversation.receive(Buffer.from(lineOf(message)));
    }
    #hear(message) {
        const { id, method, params, result, error } = message;
        if (typeof method === "string" && isObject(params)) {
            if (id !== undefined) {
                void this.#answer(id, method, params);
            }
            else if (method === `${this.#plugin.namespace}.event`) {
                this.#waiting.get(params["id"])?.onEvent?.(params["event"]);
            }
            else {
                this.notifications.push({ name: method, params });
            }
            return;
        }
        const waiting = this.#waiting.get(id);
        this.#waiting.delete(id);
        if (isObject(error)) {
            waiting?.reject(new CallFailed(error["code"], error["message"], error["data"] ?? null));
        }
        else {
            waiting?.resolve(result ?? null);
        }
    }
    async #answer(id, method, params) {
        const { _call: token, ...own } = params;
        const call = typeof token === "string" ? Number(token.replace("call-", "")) : null;
        this.asked.push({ method, params: own, call });
        const answer = this.#answerTo(method.replace(`${this.#plugin.namespace}.`, ""));
        try {
            if (!answer) {
                throw new PluginFault(`${method} is not granted: the test has no answer for it`, undefined, CAPABILITY_DENIED);
            }
            this.#say({ id, result: (await answer(own)) ?? null });
        }
        catch (error) {
            const fault = error instanceof PluginFault ? error : new PluginFault(String(error));
            this.#say({ id, error: fault.toError() });
        }
    }
    #answerTo(name) {
        const { answers = {}, tables } = this.#options;
        const [service = "", operation = ""] = name.split(".");
        if (Object.hasOwn(answers, name)) {
            return answers[name];
        }
        if (tables && service === "storage") {
            return (params) => tables.answer(operation, params);
        }
        return name === "audit.write" ? (params) => this.#audit(params) : undefined;
    }
    #audit({ action, details }) {
        this.audited.push({ action: String(action), details: isObject(details) ? details : {} });
        return { written: true };
    }
}

export { CallFailed, FakeHost, FakeTables, hostFor };
