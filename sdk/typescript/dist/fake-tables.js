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
import { InvalidParams, METHOD_NOT_FOUND, PluginFault, RESOURCE_BUSY, STORAGE_ACCESS_DENIED } from "./faults.js";
export class FakeTables {
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
        const { told, statement } = this.#run(params);
        if (typeof told === "number") {
            throw new TypeError(`the test answers a query with a number, and not with rows: ${statement.sql}`);
        }
        return found(told);
    }
    #exec(params) {
        const { told, statement } = this.#run(params);
        (this.#open?.written ?? this.kept).push(statement);
        return typeof told === "number" ? { rows_affected: told } : { rows_affected: told.length, ...found(told) };
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
        const told = typeof answer === "function" ? answer(statement.params) : answer;
        this.made.push(statement);
        return { told, statement };
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
