// The names of those who call: the log has numbers, which are asked for once and stay as the title.

import { fetched, marked } from "./text.js";

const SOON = 50;
const MOST = 100;
// A session of this moment is stored within seconds, with its client.
const AGAIN = 5000;
const SESSION = "session:";
const names = new Map();
const waiting = new Map();

export function named(who, node) {
  return wait(who, node, who.startsWith("user:"));
}

// What the client of a session calls itself: nothing until that is known.
export function client(session, node) {
  return wait(`${SESSION}${session}`, node, session !== "");
}

function wait(who, node, known) {
  node.dataset.who = who;
  write(node, who);
  if (known && !names.has(who)) {
    if (waiting.size === 0) window.setTimeout(ask, SOON);
    waiting.set(who, [...(waiting.get(who) ?? []), node]);
  }
  return node;
}

function write(node, who) {
  const unnamed = who.startsWith(SESSION) ? "" : who;
  const name = names.get(who) ?? unnamed;
  node.replaceChildren();
  marked(name, node);
  node.title = name === unnamed ? "" : who;
}

async function ask() {
  const asked = new Map([...waiting].slice(0, MOST));
  for (const who of asked.keys()) waiting.delete(who);
  if (waiting.size > 0) window.setTimeout(ask, SOON);
  const query = new URLSearchParams([...asked.keys()].map((who) => (
    who.startsWith(SESSION) ? ["session", who.slice(SESSION.length)] : ["who", who]
  )));
  const { ok, data } = await fetched(`${document.querySelector(".mcp-console").dataset.names}?${query}`);
  if (!ok) return;
  for (const [who, nodes] of asked) {
    if (who in data || !who.startsWith(SESSION)) names.set(who, data[who] ?? who);
    else {
      names.set(who, "");
      window.setTimeout(() => names.delete(who), AGAIN);
    }
    // A node may stand for somebody else by now.
    for (const node of nodes) if (node.dataset.who === who) write(node, who);
  }
}
