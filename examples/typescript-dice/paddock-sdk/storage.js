/** The plugin's own tables, which the host keeps: SQL goes out as a request, rows come back. */
class Speaker {
    ask;
    prefix;
    within;
    constructor(ask, prefix, within) {
        this.ask = ask;
        this.prefix = prefix;
        this.within = within;
    }
    async query(sql, params = []) {
        return (await this.ask(`${this.prefix}.query`, { sql, params, ...this.within }));
    }
    async exec(sql, params = []) {
        const answer = (await this.ask(`${this.prefix}.exec`, { sql, params, ...this.within }));
        return answer["rows_affected"];
    }
}
class OpenTransaction extends Speaker {
    named;
    #result = {}; // goes with the commit
    constructor(ask, prefix, named) {
        super(ask, prefix, named);
        this.named = named;
    }
    answers(result) {
        this.#result = { result };
    }
    async commit() {
        await this.ask(`${this.prefix}.commit`, { ...this.named, ...this.#result });
    }
    async rollback() {
        await this.ask(`${this.prefix}.rollback`, this.named);
    }
}
/** Each statement is a transaction of its own, unless one was begun. */
export class Storage extends Speaker {
    constructor(ask, namespace) {
        super(ask, `${namespace}.storage`, {});
    }
    /** The names of the plugin's tables. */
    async schema() {
        const answer = (await this.ask(`${this.prefix}.schema`, {}));
        return answer["tables"];
    }
    /** A transaction that the caller commits or rolls back. `transaction` does it by itself. */
    async begin() {
        const { transaction } = (await this.ask(`${this.prefix}.begin`, {}));
        return new OpenTransaction(this.ask, this.prefix, { transaction: transaction ?? null });
    }
    /** Run statements together: kept when `work` is done, undone when it throws. */
    async transaction(work) {
        const begun = await this.begin();
        let result;
        try {
            result = await work(begun);
        }
        catch (error) {
            // The first error is the one to hear of; a transaction that the host has already ended cannot be undone twice.
            await begun.rollback().catch(() => undefined);
            throw error;
        }
        await begun.commit();
        return result;
    }
}
