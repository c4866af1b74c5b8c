/** Structured log lines on stderr, one JSON object each. Stdout belongs to the protocol. */
export declare const LEVELS: readonly ["debug", "info", "warning", "error"];
export type Level = (typeof LEVELS)[number];
export type Fields = Readonly<Record<string, unknown>>;
/**
 * Writes what is at or above a level. Fields that are no JSON are written as their text.
 *
 * `about` is asked what stands in every line: the id of the call under way, for instance.
 */
export declare class Log {
    #private;
    constructor(plugin: string, level?: string, write?: (line: string) => void, about?: () => Fields);
    debug(message: string, fields?: Fields): void;
    info(message: string, fields?: Fields): void;
    warning(message: string, fields?: Fields): void;
    error(message: string, fields?: Fields): void;
}
