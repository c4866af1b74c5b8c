/** What we ask the host, and its answers. */
import { HostGone, refusedWith } from "./faults.js";
/** The host works on so many requests of one plugin and refuses more; the others wait here for their turn. */
export const AT_ONCE = 32;
/** Beyond these it works on some that belong to an open transaction, whose end the others may be waiting for. */
export const RESERVED = 8;
export class Questions {
    #send;
    #open = new Map();
    #waiting = [];
    #ofTransactions = [];
    #lastId = 0;
    #closed = false;
    constructor(send) {
        this.#send = send;
    }
    /**
     * The host's answer.
     *
     * @throws HostRefused: it is an error. HostGone: it will never come. TypeError, RangeError: it cannot be sent.
     */
    ask(method, params) {
        if (this.#closed) {
            return Promise.reject(new HostGone());
        }
        return new Promise((resolve, reject) => {
            const queue = typeof params["transaction"] === "string" ? this.#ofTransactions : this.#waiting;
            queue.push({ method, params, resolve, reject });
            this.#next();
        });
    }
    /** Hand an answer to whoever asked; false if nobody did. */
    answered(answer) {
        const asked = this.#open.get(answer.id);
        if (!asked) {
            return false;
        }
        this.#open.delete(answer.id);
        if (answer.error) {
            asked.reject(refusedWith(answer.error));
        }
        else {
            asked.resolve(answer.result ?? null);
        }
        this.#next();
        return true;
    }
    /** No answer will come any more. */
    close() {
        this.#closed = true;
        const unanswered = [...this.#open.values(), ...this.#ofTransactions, ...this.#waiting];
        this.#open.clear();
        this.#ofTransactions = [];
        this.#waiting = [];
        for (const asked of unanswered) {
            asked.reject(new HostGone());
        }
    }
    #next() {
        for (let asked = this.#nextAsked(); asked; asked = this.#nextAsked()) {
            const id = ++this.#lastId;
            this.#open.set(id, asked);
            try {
                this.#send({ id, method: asked.method, params: asked.params });
            }
            catch (error) {
                this.#open.delete(id);
                asked.reject(error);
            }
        }
    }
    #nextAsked() {
        const first = this.#open.size < AT_ONCE + RESERVED ? this.#ofTransactions.shift() : undefined;
        return first ?? (this.#open.size < AT_ONCE ? this.#waiting.shift() : undefined);
    }
}
