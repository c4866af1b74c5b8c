/** The process's own pipes: stdin and stdout for the protocol alone, stderr for everything else. */
import { HostGone } from "./faults.js";
/** Stdout for our lines only: from now on what is printed lands in the log. */
export function takeStdio() {
    const { stdin, stdout, stderr } = process;
    let broken = false;
    const write = stdout.write.bind(stdout);
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
            stderr.on("error", () => undefined); // a log that nobody reads is no reason to stop
            stdin.on("data", (piece) => conversation.receive(piece));
            stdin.on("end", () => conversation.closed());
            stdin.on("error", () => conversation.closed());
        },
    };
}
