// The TypeScript client of the second line declares extensions, in an era of its own choice:
// node extensions.mjs legacy|2026-07-28 http|sse|stdio <declared, JSON> <url or command> …

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [wanted, kind, declared, ...target] = process.argv.slice(2);
const mode = wanted === "legacy" ? wanted : { pin: wanted };
const capabilities = JSON.parse(declared);
const client = new Client({ name: "interop", version: "1" }, { capabilities, versionNegotiation: { mode } });
const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(target[0])),
  sse: () => new SSEClientTransport(new URL(target[0])),
  stdio: () => new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env }),
};
await client.connect(transports[kind]());
const seen = (await client.callTool({ name: "client_extensions", arguments: {} })).structuredContent;
console.log(JSON.stringify({ announced: client.getServerCapabilities(), seen }));
await client.transport.terminateSession?.();
await client.close();
process.exit(0);
