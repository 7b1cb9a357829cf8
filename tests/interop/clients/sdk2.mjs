// The TypeScript client of the second line:
// node sdk2.mjs legacy|auto|2026-07-28 http|sse|stdio <url or command> …

import {
  Client,
  LOG_LEVEL_META_KEY,
  SSEClientTransport,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { ROOTS, SAMPLED, filled, walk } from "./features.mjs";

const [wanted, kind, ...target] = process.argv.slice(2);
const mode = ["legacy", "auto"].includes(wanted) ? wanted : { pin: wanted };
const heard = { logs: [], updated: [], changed: [] };
const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
const client = new Client({ name: "interop", version: "1" }, { capabilities, versionNegotiation: { mode } });
client.setRequestHandler("elicitation/create", async ({ params }) => filled(params));
client.setRequestHandler("sampling/createMessage", async () => SAMPLED);
client.setRequestHandler("roots/list", async () => ROOTS);
client.setNotificationHandler("notifications/message", ({ params }) => void heard.logs.push(params.data));
client.setNotificationHandler("notifications/resources/updated", ({ params }) => void heard.updated.push(params.uri));
client.setNotificationHandler("notifications/tools/list_changed", () => void heard.changed.push("tools"));

const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(target[0])),
  sse: () => new SSEClientTransport(new URL(target[0])),
  stdio: () => new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env }),
};
await client.connect(transports[kind]());

const modern = client.getNegotiatedProtocolVersion() === "2026-07-28";
// There each request says what it wants to hear.
const levelled = (params) => (modern ? { ...params, _meta: { [LOG_LEVEL_META_KEY]: "info" } } : params);
const does = {
  // The client's own words for it fetch all pages at once.
  list: (method, params) => client.request({ method, params }),
  call: (params, options) => client.callTool(levelled(params), options),
  read: (params) => client.readResource(params),
  prompt: (params) => client.getPrompt(params),
  complete: (params) => client.complete(params),
  setLevel: (level) => (modern ? undefined : client.setLoggingLevel(level)),
  subscribe: (uri) =>
    modern
      ? client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] })
      : client.subscribeResource({ uri }),
};
const report = await walk(does, heard);
report.version = client.getNegotiatedProtocolVersion();
console.log(JSON.stringify(report));
await client.transport.terminateSession?.();
await client.close();
process.exit(0);
