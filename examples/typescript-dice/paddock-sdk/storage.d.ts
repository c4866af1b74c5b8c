/** The plugin's own tables, which the host keeps: SQL goes out as a request, rows come back. */
import type { Json, JsonObject } from "./json.js";
export type Ask = (method: string, params: JsonObject) => Promise<Json>;
export type Row = Readonly<Record<string, Json>>;
/** What a query found. */
export interface Rows<R = Row> {
    readonly rows: readonly R[];
    readonly columns: readonly string[];
}
/**
 * Statements, one a call.
 *
 * All reject with HostRefused if a statement is wrong, and with CapabilityDenied if the plugin was not granted it.
 */
export interface Statements {
    /** Read with a SELECT. */
    query<R = Row>(sql: string, params?: readonly Json[]): Promise<Rows<R>>;
    /** Write or define tables; gives the number of rows affected. */
    exec(sql: string, params?: readonly Json[]): Promise<number>;
}
/** Statements that take effect together, or not at all. */
export interface Together extends Statements {
    /** What the call is going to answer, kept with the transaction; for a call whose recovery is `atomic`. */
    answers(result: Json): void;
}
/** The same for whoever ends it. The host ends one that takes too long. */
export interface Transaction extends Together {
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
export declare class Storage extends Speaker {
    constructor(ask: Ask, namespace: string);
    /** The names of the plugin's tables. */
    schema(): Promise<readonly string[]>;
    /** A transaction that the caller commits or rolls back. `transaction` does it by itself. */
    begin(): Promise<Transaction>;
    /** Run statements together: kept when `work` is done, undone when it throws. */
    transaction<T>(work: (statements: Together) => Promise<T>): Promise<T>;
}
export {};
