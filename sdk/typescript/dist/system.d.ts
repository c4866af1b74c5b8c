/** What the host says to every plugin: the handshake, its settings, the projects that use it. */
import { type JsonObject } from "./json.js";
import type { Log } from "./log.js";
export declare const API_VERSION = 1;
export declare const OK: {
    readonly status: "ok";
};
/** What the handshake says about a plugin. */
export interface Introduction {
    readonly name: string;
    readonly version: string;
    readonly methods: readonly string[];
    readonly tools: readonly string[];
    readonly notifications: readonly string[];
    readonly capabilitiesUsed: readonly string[];
}
/** What may change while a plugin runs. */
export interface Settings {
    config: JsonObject;
    readonly projects: Map<string, JsonObject>;
}
export declare class System {
    #private;
    phase: "new" | "initializing" | "running";
    constructor(introduce: () => Introduction, settings: Settings, onConfigUpdate: (config: JsonObject) => unknown, log: Log);
    owns(method: string): boolean;
    /** The result of one of these methods. */
    serve(method: string, params: JsonObject): Promise<unknown>;
}
