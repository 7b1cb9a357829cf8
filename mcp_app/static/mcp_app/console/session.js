// The head of one session's page: whether it lives, what is open and running, and ending it.

import { span } from "../times.js";
import { caller } from "./names.js";
import { badge, byId, cancelling, element, fetched, marked } from "./text.js";

const EVERY = 3000;
const STALE = 10000;

export class SessionHead {
  constructor(root, onEnded) {
    this.root = root;
    this.onEnded = onEnded;
    this.live = new Map();
    this.calls = [];
    this.lines = new Map();
    byId("mcp-end")?.addEventListener("click", (event) => this.end(event.currentTarget));
    this.look();
    window.setInterval(() => { if (!document.hidden) this.look(); }, EVERY);
    window.setInterval(() => this.draw(), 1000);
  }

  // What the processes report of this session.
  heard(live) {
    for (const [process, found] of Object.entries(live)) this.live.set(process, { ...found, heard: Date.now() });
    this.draw();
  }

  ended(reason) {
    this.onEnded(true);
    this.over = true;
    const state = byId("mcp-state");
    state.textContent = "ended";
    if (reason) this.root.querySelector("[data-fact=reason]").textContent = reason;
    this.root.querySelector("[data-ending]")?.remove();
    this.draw();
  }

  async look() {
    const { ok, data } = await fetched(this.root.dataset.now);
    if (!ok || data.session === null) return;
    for (const node of this.root.querySelectorAll("[data-fact]")) {
      const said = data.session[node.dataset.fact] || (node.dataset.fact === "reason" ? "" : "–");
      if (node.dataset.fact === "who") caller(data.session, node);
      else node.textContent = said;
    }
    if (data.session.ended) this.ended(data.session.reason);
    else {
      this.onEnded(false);
      this.over = false;
      byId("mcp-state").textContent = "open";
      // A page that was opened before its session was stored has the button, too.
      this.root.querySelector("[data-ending]")?.removeAttribute("hidden");
    }
    this.calls = data.calls;
    this.draw();
  }

  draw() {
    for (const [process, found] of this.live) if (Date.now() - found.heard > STALE) this.live.delete(process);
    const open = [...this.live].filter(([, found]) => found.streams > 0);
    byId("mcp-streams").textContent = open.map(([process, found]) => `${found.streams}${found.listening ? " (listening)" : ""} at ${process}`).join(", ") || "none";
    const running = [...this.live].flatMap(([process, found]) => found.running.map((call) => ({
      request: JSON.stringify(call.id), process, shown: call.shown, target: call.target || call.method, state: `running at ${process}`,
    })));
    // The calls of an ended session are cancelled, which takes a moment.
    this.drawRunning(this.over ? [] : [...this.calls, ...running]);
  }

  drawRunning(calls) {
    const box = byId("mcp-running");
    for (const node of box.querySelectorAll("[data-since]")) node.textContent = span(Date.now() - Number(node.dataset.since));
    const said = JSON.stringify(calls);
    if (said === this.said) return;
    this.said = said;
    box.hidden = calls.length === 0;
    // A line stays while its call runs: a button under the pointer, and a question that is not answered, with it.
    const former = this.lines;
    this.lines = new Map();
    for (const call of calls) {
      const key = JSON.stringify([call.process ?? null, call.request]);
      if (this.lines.has(key)) continue;
      const line = former.get(key) ?? this.line(call);
      former.delete(key);
      line.firstElementChild.replaceChildren(...this.saidOf(call));
      this.lines.set(key, line);
    }
    this.remove([...former.values()]);
    for (const [place, line] of [...this.lines.values()].entries()) {
      if (box.children[place] !== line) box.insertBefore(line, box.children[place] ?? null);
    }
  }

  // What had the focus leaves it to the list of messages, not to nothing.
  remove(lines) {
    const focused = lines.some((line) => line.contains(document.activeElement));
    for (const line of lines) line.remove();
    if (focused) byId("mcp-scroll").focus({ preventScroll: true });
  }

  line(call) {
    const line = element("li");
    line.append(element("span", "mcp-running-said"));
    if (this.root.dataset.cancel) line.append(cancelling("Cancel", this.root.dataset.cancel, call.request, () => this.look()));
    return line;
  }

  saidOf(call) {
    const parts = [badge(call.state, "info"), marked(call.target, element("strong", "mcp-text")), marked(`id ${call.shown}`, element("span", "mcp-dim mcp-text"))];
    if (call.progress !== null && call.progress !== undefined) {
      const bar = element("progress");
      if (call.total) { bar.max = call.total; bar.value = Math.min(call.progress, call.total); }
      parts.push(bar);
    }
    if (call.since) {
      const since = element("span", "mcp-time", span(Date.now() - call.since));
      since.dataset.since = call.since;
      parts.push(since);
    }
    return parts;
  }

  async end(button) {
    button.disabled = true;
    const { ok, data } = await fetched(this.root.dataset.end, {});
    if (ok) this.ended("");
    else button.textContent = data?.note ?? "The session could not be ended.";
    this.look();
  }
}
