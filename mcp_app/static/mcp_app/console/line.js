// One message as a line of a list.

import { clock, moment, span, zone } from "../times.js";
import { caller, client, title } from "./names.js";
import { badge, element, marked } from "./text.js";

const TONES = { ok: "good", tool_error: "bad", error: "bad", refused: "warn", cancelled: "warn", asked: "info", running: "info", waiting: "warn", queued: "info", resumed: "warn" };
const WORDS = { ok: "succeeded", tool_error: "failed", error: "failed", asked: "asked for input", waiting: "waiting for approval" };
const DETAILS = { tool_error: "tool error", error: "protocol error" };

// Lines that record a state instead of a message: their sign, and what it means.
const MARKS = {
  running: ["⋯", "no response yet"],
  waiting: ["⋯", "no response yet"],
  queued: ["⋯", "no response yet"],
  resumed: ["↻", "the client resumed a stream"],
};

// A drawing pin, because fonts draw the character for it as a coloured picture or not at all.
function pinIcon() {
  const [icon, path] = ["svg", "path"].map((name) => document.createElementNS("http://www.w3.org/2000/svg", name));
  for (const [name, value] of Object.entries({ viewBox: "0 0 16 16", width: 14, height: 14, fill: "currentColor", "aria-hidden": "true" })) icon.setAttribute(name, value);
  path.setAttribute("d", "M5 1h6v1l-1 1v4l2.5 2.5V11H8.75v4l-.75 1-.75-1v-4H3.5V9.5L6 7V3L5 2z");
  icon.append(path);
  return icon;
}

// Marks of a request that has no response yet; each replaces the former ones. `log.py` has them, too.
export const OPEN = ["waiting", "queued", "running"];

export function isOpen(row) { return OPEN.includes(row.kind); }

// The arrow of a message or the sign of a mark, with its meaning in words.
export function sign(row, name) {
  const way = row.dir === "in" ? ["→", "client → server"] : ["←", "server → client"];
  const [shown, said] = MARKS[row.kind] ?? way;
  const node = element("span", `${name}${MARKS[row.kind] ? " mcp-sign" : ""}`);
  const drawn = element("span", "", shown);
  drawn.setAttribute("aria-hidden", "true");
  node.append(drawn, element("span", "mcp-hidden", said));
  node.title = said;
  return node;
}

export function status(row) {
  const name = row.status || (MARKS[row.kind] ? row.kind : "");
  if (name === "") return null;
  const shown = badge(WORDS[name] ?? name, TONES[name] ?? "plain");
  if (DETAILS[name]) shown.title = DETAILS[name];
  return shown;
}

export function took(node, ms) {
  node.textContent = span(ms);
}

export function lineOf(row, { across = false } = {}) {
  const line = element("li", `mcp-line${across ? "" : " mcp-of-one"}`);
  line.dataset.key = row.key;
  line.dataset.dir = row.dir;
  line.dataset.kind = row.kind;
  if (row.status === "error" || row.status === "tool_error") line.dataset.tone = "bad";
  const arrow = sign(row, "mcp-line-dir");
  const time = element("time", "", clock(row.at));
  time.dateTime = new Date(row.at).toISOString();
  time.title = `${moment(row.at)} ${zone}`;
  const words = marked(row.summary, element("span", "mcp-line-text"));
  if (row.redacted) words.append(" ", element("span", "mcp-redacted", "redacted"));
  const duration = element("span", "mcp-took");
  if (row.ms !== null || isOpen(row)) took(duration, row.ms ?? Date.now() - row.at);
  const state = element("span", "mcp-status");
  const shown = status(row);
  if (shown) state.append(shown);
  const pin = element("button", "mcp-line-pin");
  pin.append(pinIcon());
  pin.type = "button";
  pin.title = "Pin";
  pin.setAttribute("aria-label", "Pin");
  pin.setAttribute("aria-pressed", "false");
  const callers = across ? [caller(row, element("span", "mcp-line-user")), client(row, element("span", "mcp-line-client"))] : [];
  line.append(arrow, time, title(row, element("span", "mcp-line-name")), words, ...callers, duration, state, pin);
  // Lines are reached by the arrow keys; the same links in the open message are reached by Tab.
  for (const link of line.querySelectorAll("a")) link.tabIndex = -1;
  return line;
}

export function gap(text, kind = "") {
  return element("li", `mcp-gap ${kind}`.trim(), text);
}
