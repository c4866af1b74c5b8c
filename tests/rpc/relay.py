"""A program that a test speaks through: from a socket to its stdout, and from its stdin to the socket."""

from __future__ import annotations

import os
import socket
import sys
import threading


def copy_stdin(control: socket.socket) -> None:
    while data := os.read(0, 65536):
        control.sendall(data)
    control.shutdown(socket.SHUT_WR)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    threading.Thread(target=copy_stdin, args=(control,), daemon=True).start()
    while data := control.recv(65536):
        sent = memoryview(data)
        while sent:
            sent = sent[os.write(1, sent) :]


if __name__ == "__main__":
    main()
