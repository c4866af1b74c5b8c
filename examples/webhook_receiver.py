"""Takes events from Paddock and believes none that is not signed; only the standard library is used.

    WEBHOOK_SECRET=whsec_… python webhook_receiver.py 8080

Prints one line for each event. While a secret is being replaced, give both with a space between.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRETS = [base64.b64decode(one.removeprefix("whsec_")) for one in os.environ["WEBHOOK_SECRET"].split()]
TOLERANCE = 300  # seconds: what is older was recorded by somebody, and is sent again
seen = set()  # of a real receiver this is a table


def believable(headers, body):
    name, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent.isdigit() or abs(time.time() - int(sent)) > TOLERANCE:
        return False
    content = f"{name}.{sent}.".encode() + body
    right = {"v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in SECRETS}
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(one, other) for one in right for other in given)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        status = 401
        if believable(self.headers, body):
            status, event = 204, json.loads(body)
            if event["id"] not in seen:  # at least once means: now and then twice
                seen.add(event["id"])
                print(event.get("sequence", "-"), event["type"], event.get("subject", "-"), flush=True)
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(f"listening on {server.server_port}", flush=True)
    server.serve_forever()
