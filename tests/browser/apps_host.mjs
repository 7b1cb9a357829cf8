// A host of MCP Apps made of the official classes. As Claude does, it shows the page of a tool in a frame only if
// the server announced the extension in `capabilities.extensions` of its answer to `initialize`.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  AppBridge,
  PostMessageTransport,
  RESOURCE_MIME_TYPE,
  getToolUiResourceUri,
} from "@modelcontextprotocol/ext-apps/app-bridge";

const EXTENSION = "io.modelcontextprotocol/ui";
const HOST = { name: "host", version: "1" };
const say = (text) => (document.getElementById("state").textContent = text);

window.show = async (url, version, name, args) => {
  const capabilities = { extensions: { [EXTENSION]: { mimeTypes: [RESOURCE_MIME_TYPE] } } };
  const client = new Client(HOST, { capabilities, supportedProtocolVersions: [version] });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const server = client.getServerCapabilities();
  if (!server.extensions?.[EXTENSION]) return say("The server has no pages.");
  const tool = (await client.listTools()).tools.find((each) => each.name === name);
  const uri = getToolUiResourceUri(tool);
  const [page] = (await client.readResource({ uri })).contents;
  if (page.mimeType !== RESOURCE_MIME_TYPE) return say(`${uri} is ${page.mimeType}.`);
  const called = client.callTool({ name, arguments: args });

  const frame = document.getElementById("page");
  const bridge = new AppBridge(client, HOST, { serverTools: server.tools, serverResources: server.resources });
  bridge.addEventListener("initialized", async () => {
    bridge.sendToolInput({ arguments: args });
    bridge.sendToolResult(await called);
    say(`${client.getNegotiatedProtocolVersion()}: ${bridge.getAppVersion().name} is shown.`);
  });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = page.text;
};
