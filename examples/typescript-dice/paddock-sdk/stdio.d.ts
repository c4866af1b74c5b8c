/** The process's own pipes: stdin and stdout for the protocol alone, stderr for everything else. */
import type { Conversation } from "./conversation.js";
/** Where lines of the protocol and of the log go, and a way to be told what arrives. */
export interface Stdio {
    readonly send: (line: string) => void;
    readonly log: (line: string) => void;
    readonly feed: (conversation: Conversation) => void;
}
/** Stdout for our lines only: from now on what is printed lands in the log. */
export declare function takeStdio(): Stdio;
