/** What can stand on the wire. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
    readonly [name: string]: Json;
}
/** Whether a decoded value is an object, and no list. */
export declare function isObject(value: unknown): value is JsonObject;
