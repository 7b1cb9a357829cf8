// Core tasks with the TypeScript SDK of the first line: node tasks.mjs <url>

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  CreateTaskResultSchema,
  ElicitRequestSchema,
  TaskStatusNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [url] = process.argv.slice(2);
const heard = [];
const client = new Client({ name: "interop", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  const fields = Object.keys(params.requestedSchema.properties);
  return { action: "accept", content: Object.fromEntries(fields.map((name) => [name, "Ada"])) };
});
client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => void heard.push(params));
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);

const does = client.experimental.tasks;
const text = (result) => result.content.map((block) => block.text).join("");
// Follows a call to its end, as an application would: made, polled, and asked for its result.
const follow = async (name, args, options = {}) => {
  const seen = { polled: [], steps: [] };
  const onprogress = ({ progress }) => void seen.steps.push(progress);
  for await (const message of does.callToolStream({ name, arguments: args }, CallToolResultSchema, { ...options, onprogress })) {
    if (message.type === "taskCreated") seen.made = message.task;
    if (message.type === "taskStatus") seen.polled.push(message.task.status);
    if (message.type === "result") seen.result = message.result;
    if (message.type === "error") throw message.error;
  }
  return seen;
};

const { tools } = await client.listTools();
const worked = await follow("work", { nonce: "tw", steps: 15 }, { task: { ttl: 60_000 } });
const asked = await follow("ask_slowly", { nonce: "ta" });
const long = await client.request(
  { method: "tools/call", params: { name: "work", arguments: { nonce: "tl", steps: 600 } } },
  CreateTaskResultSchema,
  { task: {} },
);
const cancelled = await does.cancelTask(long.task.taskId);
const code = await does.getTaskResult(long.task.taskId, CallToolResultSchema).then(() => 0, (error) => error.code);
console.log(
  JSON.stringify({
    declared: client.getServerCapabilities().tasks,
    support: Object.fromEntries(tools.map((tool) => [tool.name, tool.execution?.taskSupport ?? null])),
    made: worked.made,
    polled: worked.polled,
    steps: worked.steps,
    worked: text(worked.result),
    asked: text(asked.result),
    related: asked.result._meta["io.modelcontextprotocol/related-task"].taskId === asked.made.taskId,
    cancelled: cancelled.status,
    cancelled_code: code,
    heard: heard.filter((task) => task.taskId === asked.made.taskId).map((task) => task.status),
  }),
);
await transport.terminateSession();
await client.close();
