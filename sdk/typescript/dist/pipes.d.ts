/**
 * The two pipes that a process was started with for big bytes, and the frames on them.
 *
 * A frame is the number of a transfer and a length, four bytes each, the highest first, and then so many bytes; a length
 * of 0 ends the transfer. Frames of several transfers may alternate.
 */
export declare class Pipes {
    #private;
    constructor(source: number, sink: number);
    /** Send pieces and the end. Where the host closed the pipes this ends early: whoever commits is told why. */
    send(stream: number, pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void>;
    /**
     * What comes under this number until its end.
     *
     * @throws PluginFault: nothing more will come.
     */
    receive(stream: number): Promise<Buffer>;
}
/** This process's pipes; null where it has none, as in a test. */
export declare function openPipes(namespace: string): Pipes | null;
