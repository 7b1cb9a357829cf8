// How Gemini CLI hands tools on to its model: gemini.mjs <file with the tools>; prints what it made of each.

import { readFileSync } from "node:fs";
import { discoverTools } from "@google/gemini-cli-core/dist/src/tools/mcp-client.js";
import { SchemaValidator } from "@google/gemini-cli-core/dist/src/utils/schemaValidator.js";

const tools = JSON.parse(readFileSync(process.argv[2], "utf8"));
const problems = [];
const client = { getServerCapabilities: () => ({ tools: {} }), listTools: async () => ({ tools }) };
const config = { emitMcpDiagnostic: (_level, text) => problems.push(text), isTrustedFolder: () => true };
const found = await discoverTools("server", {}, client, config, {});
const made = found.map((tool) => {
  const { name, parametersJsonSchema } = tool.schema;
  return [tool.serverToolName, { name, parameters: parametersJsonSchema, schemaProblem: SchemaValidator.validateSchema(parametersJsonSchema) }];
});
console.log(JSON.stringify({ tools: Object.fromEntries(made), problems }));
