// The official client of the second generation: `modern.mjs REVISION URL [HEADERS]` or `modern.mjs REVISION COMMAND ARGS…`.
// Prints what it got as one JSON document.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { told } from "./told.mjs";

const [revision, where, ...rest] = process.argv.slice(2);
const stateless = revision >= "2026";
const client = new Client(
    { name: "modern", version: "1" },
    {
        capabilities: { elicitation: { form: {} } },
        ...(stateless
            ? { versionNegotiation: { mode: { pin: revision } } }
            : { supportedProtocolVersions: [revision] }),
    },
);
const asked = [];
client.setRequestHandler("elicitation/create", async ({ params }) => {
    asked.push(params.message);
    return { action: "accept", content: { name: "Ada" } };
});
const transport = where.startsWith("http")
    ? new StreamableHTTPClientTransport(new URL(where), { requestInit: { headers: JSON.parse(rest[0] ?? "{}") } })
    : new StdioClientTransport({ command: where, args: rest, env: process.env });
await client.connect(transport);
const spoken = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
const got = await told(client, (params, options) => client.callTool(params, options));
console.log(JSON.stringify({ spoken, ...got, asked }));
await client.close();
