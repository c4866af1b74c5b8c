/**
 * One conversation with a host: what it says is sorted on arrival, calls run side by side, answers go back.
 *
 * Calls start in the order in which they came, at most `concurrency` at a time. Requests of the host's own (settings,
 * projects) are served one after the other, and a call that came after one starts after it. Three things never wait: a
 * ping, the answer to a question of ours, and the word that a call is no longer wanted.
 */
import type { AsyncLocalStorage } from "node:async_hooks";
import { Underway } from "./call.js";
import { type Served } from "./handlers.js";
import type { Log } from "./log.js";
import { Questions } from "./questions.js";
import { type System } from "./system.js";
export declare const MOST_WAITING = 1024;
export interface Parts {
    /** Sends one line; throws HostGone if nobody reads any more. */
    readonly send: (line: string) => void;
    readonly namespace: string;
    readonly concurrency: number;
    readonly handlers: ReadonlyMap<string, Served>;
    readonly system: System;
    readonly log: Log;
    /** The call that the running code belongs to. */
    readonly current: AsyncLocalStorage<Underway>;
}
export declare class Conversation {
    #private;
    /** Resolves when the host said shutdown or is gone, and nothing is under way any more. */
    readonly over: Promise<void>;
    readonly questions: Questions;
    constructor(parts: Parts);
    receive(piece: Uint8Array): void;
    /** The host will say nothing more. What it asked for is still answered. */
    closed(): void;
    /** Nobody reads our answers any more: there is nothing left to do. */
    lost(): void;
    /**
     * Send one message.
     *
     * @throws TypeError, RangeError: it cannot be sent. HostGone: nobody reads any more.
     */
    say(message: object): void;
}
