// Every feature with the TypeScript SDK of the first line:
// node features.mjs http|sse <url>, or node features.mjs stdio <command> …

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [kind, ...target] = process.argv.slice(2);
const heard = { logs: [], updated: [], changed: [] };
const capabilities = { elicitation: {}, sampling: {}, roots: {} };
const client = new Client({ name: "interop", version: "1" }, { capabilities });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  const fields = Object.keys(params.requestedSchema.properties);
  return { action: "accept", content: Object.fromEntries(fields.map((name) => [name, "Ada"])) };
});
client.setRequestHandler(CreateMessageRequestSchema, async () => {
  return { role: "assistant", content: { type: "text", text: "words" }, model: "m", stopReason: "endTurn" };
});
client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [{ uri: "file:///home/ada" }] }));
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void heard.logs.push(params.data));
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void heard.updated.push(params.uri));
client.setNotificationHandler(ToolListChangedNotificationSchema, () => void heard.changed.push("tools"));

const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(target[0])),
  sse: () => new SSEClientTransport(new URL(target[0])),
  stdio: () => new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env }),
};
await client.connect(transports[kind]());

const text = (result) => result.content.filter((block) => block.type === "text").map((block) => block.text).join("");
const call = async (name, args = {}, options) => {
  const result = await client.callTool({ name, arguments: args }, undefined, options);
  return { text: text(result), structured: result.structuredContent ?? null };
};
const until = async (what) => {
  for (const end = Date.now() + 15_000; Date.now() < end; ) {
    if (await what()) return true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
};
const listed = async (method, member, key) => {
  const names = [];
  let pages = 0;
  let cursor;
  do {
    const page = await client[method]({ cursor });
    names.push(...page[member].map((item) => item[key]));
    cursor = page.nextCursor;
    pages += 1;
  } while (cursor);
  return [names, pages];
};

const report = { pages: {} };
for (const [name, method, member, key] of [
  ["tools", "listTools", "tools", "name"],
  ["prompts", "listPrompts", "prompts", "name"],
  ["resources", "listResources", "resources", "uri"],
  ["templates", "listResourceTemplates", "resourceTemplates", "uriTemplate"],
]) {
  [report[name], report.pages[name]] = await listed(method, member, key);
}
report.structured = (await call("add", { a: 2, b: 40 })).structured;
report.greeting = (await client.readResource({ uri: "demo://greeting/Ada" })).contents[0].text;
const review = await client.getPrompt({ name: "code_review", arguments: { code: "x = 1", language: "python" } });
report.review = review.messages.map((message) => message.content.text).join("");
const ref = { type: "ref/prompt", name: "code_review" };
report.completion = (await client.complete({ ref, argument: { name: "language", value: "py" } })).completion.values;
await client.setLoggingLevel("info");
report.progress = [];
report.chat = (await call("chat", {}, { onprogress: (step) => report.progress.push(step) })).text;
report.heard = await until(() => heard.logs.includes("said louder"));
report.logs = [...heard.logs];
report.asked = (await call("ask_everything")).text;
const name = Math.random().toString(36).slice(2);
const abort = new AbortController();
const held = call("hold", { name }, { signal: abort.signal }).catch(() => undefined);
await until(() => heard.logs.includes(`holding ${name}`));
abort.abort("enough");
await held;
report.stopped = await until(async () => (await call("stopped", { name })).text === "yes");
await client.subscribeResource({ uri: "note://one" });
await call("touch", { uri: "note://one" });
report.updated = await until(() => heard.updated.includes("note://one"));
heard.changed.length = 0;
await call("switch");
report.changed = await until(() => heard.changed.includes("tools"));
await call("switch");
report.came_back = (await call("come_back")).text;
report.process = (await call("process")).text;
report.version = client.transport.protocolVersion ?? null;
console.log(JSON.stringify(report));
await client.close();
process.exit(0);
