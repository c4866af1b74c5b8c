/** What we ask the host, and its answers. */
import { HostGone, refusedWith } from "./faults.js";
/** The host works on so many requests of one plugin and refuses more; the others wait here for their turn. */
export const AT_ONCE = 32;
export class Questions {
    #send;
    #open = new Map();
    #waiting = [];
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
            this.#waiting.push({ method, params, resolve, reject });
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
        const unanswered = [...this.#open.values(), ...this.#waiting];
        this.#open.clear();
        this.#waiting = [];
        for (const asked of unanswered) {
            asked.reject(new HostGone());
        }
    }
    #next() {
        while (this.#open.size < AT_ONCE) {
            const asked = this.#waiting.shift();
            if (!asked) {
                return;
            }
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
}
