/** Big bytes, which travel beside the messages and are kept by the host under an address. */
import type { Ask } from "./storage.js";
/** Which part of an artifact; the whole where nothing is said. */
export interface Part {
    readonly offset?: number;
    readonly length?: number;
}
/**
 * What the plugin keeps, and what it was handed. Needs `host:artifacts`.
 *
 * All reject with CapabilityDenied if the plugin was not granted it, and with PluginFault if bytes got lost on the way.
 */
export declare class Artifacts {
    #private;
    private readonly ask;
    private readonly namespace;
    constructor(ask: Ask, namespace: string);
    /** Keep bytes, or the content of the file at a path; gives the address. */
    put(content: Uint8Array | string, mediaType?: string): Promise<string>;
    /** The whole, or a part of it. */
    get(uri: string, part?: Part): Promise<Buffer>;
    /** Read it a piece at a time, for what is too big to be held at once. */
    read(uri: string, { offset, length }?: Part): AsyncGenerator<Buffer, void, undefined>;
    /** Keep it no longer; tells whether it was the plugin's. */
    delete(uri: string): Promise<boolean>;
}
