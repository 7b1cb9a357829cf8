// The names of those who call: the log has numbers, which are asked for once and stay as the title.

import { fetched, marked } from "./text.js";

const SOON = 50;
const MOST = 100;
const names = new Map();
const waiting = new Map();

export function named(who, node) {
  node.dataset.who = who;
  write(node, who, names.get(who) ?? who);
  if (who.startsWith("user:") && !names.has(who)) {
    if (waiting.size === 0) window.setTimeout(ask, SOON);
    waiting.set(who, [...(waiting.get(who) ?? []), node]);
  }
  return node;
}

function write(node, who, name) {
  node.replaceChildren();
  marked(name, node);
  node.title = name === who ? "" : who;
}

async function ask() {
  const asked = new Map([...waiting].slice(0, MOST));
  for (const who of asked.keys()) waiting.delete(who);
  if (waiting.size > 0) window.setTimeout(ask, SOON);
  const query = new URLSearchParams([...asked.keys()].map((who) => ["who", who]));
  const { ok, data } = await fetched(`${document.querySelector(".mcp-console").dataset.names}?${query}`);
  if (!ok) return;
  for (const [who, nodes] of asked) {
    names.set(who, data[who] ?? who);
    // A node may stand for somebody else by now.
    for (const node of nodes) if (node.dataset.who === who) write(node, who, names.get(who));
  }
}
