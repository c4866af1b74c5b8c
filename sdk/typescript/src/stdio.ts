/** The process's own pipes: stdin and stdout for the protocol alone, stderr for everything else. */

import type { Conversation } from "./conversation.js";
import { HostGone } from "./faults.js";

/** Where lines of the protocol and of the log go, and a callback for what arrives. */
export interface Stdio {
  readonly send: (line: string) => void;
  readonly log: (line: string) => void;
  readonly feed: (conversation: Conversation) => void;
}

/** Stdout for our lines only: from now on what is printed lands in the log. */
export function takeStdio(): Stdio {
  const { stdin, stdout, stderr } = process;
  let broken = false;
  const write = stdout.write.bind(stdout) as (line: string) => boolean;
  // `console.log` and every library that prints end up here. A child process with `stdio: "inherit"` does not.
  stdout.write = stderr.write.bind(stderr);
  return {
    send: (line) => {
      if (broken) {
        throw new HostGone();
      }
      write(line);
    },
    log: (line) => void stderr.write(line),
    feed: (conversation) => {
      stdout.on("error", () => {
        broken = true;
        conversation.lost();
      });
      stderr.on("error", () => undefined); // a log without a reader is no reason to stop
      stdin.on("data", (piece: Buffer) => conversation.receive(piece));
      stdin.on("end", () => conversation.closed());
      stdin.on("error", () => conversation.closed());
    },
  };
}
