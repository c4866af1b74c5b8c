/** One call as a handler sees it: who is calling, whether anybody still waits, and a way to tell how far it is. */
import { setImmediate as turnOfTheLoop } from "node:timers/promises";
import { isObject } from "./json.js";
/** The context and the call's token, taken out of the parameters; what stays is the handler's own. */
export function takeContext(params) {
    const { _context: given, _call: token, ...own } = params;
    const fields = isObject(given) ? given : {};
    const context = {
        operator_id: text(fields["operator_id"]),
        project_id: text(fields["project_id"]),
        agent_path: text(fields["agent_path"]),
        session_id: text(fields["session_id"]),
        request_id: text(fields["request_id"]) ?? "",
        scopes: texts(fields["scopes"]),
        idempotency_key: text(fields["idempotency_key"]),
    };
    return { own, context, token: typeof token === "string" ? token : undefined };
}
function text(value) {
    return typeof value === "string" ? value : null;
}
function texts(value) {
    return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}
/** A call that a handler is working on. */
export class Underway {
    operator_id;
    project_id;
    agent_path;
    session_id;
    request_id;
    scopes;
    idempotency_key;
    id; // undefined: nobody waits for it, or for what is told about it
    signal;
    #stopping = new AbortController();
    #token;
    #tell;
    #over = false;
    constructor(id, context, token, tell) {
        this.operator_id = context.operator_id;
        this.project_id = context.project_id;
        this.agent_path = context.agent_path;
        this.session_id = context.session_id;
        this.request_id = context.request_id;
        this.scopes = context.scopes;
        this.idempotency_key = context.idempotency_key;
        this.id = id;
        this.signal = this.#stopping.signal;
        this.#token = token;
        this.#tell = tell;
    }
    /** What names the call to the host; work that outlives its call goes on in the plugin's own name. */
    get token() {
        return this.#over ? undefined : this.#token;
    }
    progress(done, total, message) {
        this.event({
            type: "progress",
            progress: done,
            ...(total === undefined ? {} : { total }),
            ...(message === undefined ? {} : { message }),
        });
    }
    event(event) {
        if (this.#over) {
            throw new Error("the call is over, and nobody listens any more");
        }
        if (this.id !== undefined) {
            this.#tell({ id: this.id, event });
        }
    }
    async checkpoint() {
        await turnOfTheLoop();
        this.signal.throwIfAborted();
    }
    /** Ask the handler to stop. */
    stop(reason) {
        this.#stopping.abort(reason);
    }
    finish() {
        this.#over = true;
    }
}
