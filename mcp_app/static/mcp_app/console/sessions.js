// The live list of sessions: opened ones appear and ended ones go by themselves.

import { ago, span } from "../times.js";
import { Connection } from "./connection.js";
import { caller } from "./names.js";
import { badge, byId, element, fetched, marked, show } from "./text.js";

const EVERY = 20000;
const STALE = 10000;
const GONE = 60000;
const TYPING = 250;
const SOON = [2000, 6000];
// As many as the style sheet shows before somebody asks for more.
const AT_FIRST = 50;

const counted = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

class Sessions {
  constructor(root) {
    this.root = root;
    this.rows = new Map();
    this.live = new Map();
    this.isRead = false;
    let typing = 0;
    byId("mcp-search").addEventListener("input", () => {
      window.clearTimeout(typing);
      typing = window.setTimeout(() => this.read(), TYPING);
    });
    byId("mcp-state").addEventListener("change", () => this.read());
    byId("mcp-filters").addEventListener("submit", (event) => {
      if (event.submitter === byId("mcp-live")) return;
      event.preventDefault();
      this.read();
    });
    byId("mcp-more").addEventListener("click", () => { byId("mcp-rows").classList.add("mcp-all"); this.count(); });
    new Connection(root.dataset.socket, () => ({ watch: "sessions" }), (frame) => this.frame(frame));
    window.setInterval(() => this.tick(), 1000);
    // The truth is in the database: what a lost broadcast did not tell is found here.
    window.setInterval(() => { if (!document.hidden) this.read(); }, EVERY);
  }

  async read() {
    const query = new URLSearchParams({ search: byId("mcp-search").value.trim(), state: byId("mcp-state").value });
    const asked = query.toString();
    this.asked = asked;
    const { ok, data } = await fetched(`${this.root.dataset.sessions}?${asked}`);
    if (this.asked !== asked) return;
    if (!ok) { show(byId("mcp-note"), "The sessions cannot be read now."); return; }
    show(byId("mcp-note"), "");
    const known = new Set(data.rows.map((row) => row.id));
    for (const [id, found] of this.rows) {
      // One that was opened a moment ago may not be stored yet.
      if (!known.has(id) && !(found.fresh && Date.now() - found.fresh < 5000)) this.remove(id);
    }
    for (const row of data.rows) this.put(row);
    this.sort();
    this.isRead = true;
    this.more = data.more;
    this.count();
  }

  frame(frame) {
    if (frame.watching !== undefined) {
      this.read();
      // What was opened just before this is told to nobody any more, and may not be stored yet.
      for (const later of SOON) window.setTimeout(() => this.read(), later);
    }
    if (frame.note !== undefined) show(byId("mcp-note"), frame.note);
    for (const row of frame.opened ?? []) if (this.wants(row)) this.put(row, Date.now());
    for (const { id, reason } of frame.ended ?? []) this.ended(id, reason);
    for (const [id, { at }] of Object.entries(frame.seen ?? {})) {
      const found = this.rows.get(id);
      if (found) found.row.seen = Math.max(found.row.seen, at);
    }
    for (const [process, { sessions }] of Object.entries(frame.live ?? {})) this.live.set(process, { sessions, heard: Date.now() });
    this.tick();
    this.count();
  }

  wants(row) {
    const words = byId("mcp-search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const text = [row.client, row.who, row.user, row.credential, row.address, row.version, row.id].join(" ").toLowerCase();
    return byId("mcp-state").value === "open" && words.every((word) => text.includes(word));
  }

  ended(id, reason) {
    const found = this.rows.get(id);
    if (!found || found.row.ended) return;
    found.row.ended = Date.now();
    found.row.reason = reason || found.row.reason;
    this.draw(found);
  }

  put(row, fresh = 0) {
    let found = this.rows.get(row.id);
    if (!found) {
      found = { line: element("tr"), fresh };
      found.row = row;
      found.line.dataset.session = row.id;
      if (fresh) found.line.classList.add("mcp-fresh");
      this.rows.set(row.id, found);
      byId("mcp-rows")[fresh ? "prepend" : "append"](found.line);
    } else {
      found.row = { ...row, seen: Math.max(row.seen, found.row.seen), ended: row.ended ?? found.row.ended };
    }
    this.draw(found);
  }

  // The last active first. Not while somebody points at a row or stands in it: it must not become another one.
  sort() {
    const body = byId("mcp-rows");
    if (body.matches(":hover, :focus-within")) return;
    const sorted = [...this.rows.values()].sort((a, b) => b.row.seen - a.row.seen).map(({ line }) => line);
    if (sorted.some((line, place) => line !== body.children[place])) body.append(...sorted);
  }

  remove(id) {
    this.rows.get(id).line.remove();
    this.rows.delete(id);
  }

  draw(found) {
    const { row } = found;
    const drawn = JSON.stringify([row.client, row.version, row.user, row.credential, row.address, row.ended, row.reason]);
    // A row that is made anew while somebody clicks in it, or has its focus there, loses the click and the focus.
    if (found.drawn === drawn) { this.refresh(found); return; }
    found.drawn = drawn;
    const hadFocus = found.line.contains(document.activeElement);
    const cell = (name, ...content) => {
      const made = element("td");
      made.dataset.name = name;
      made.append(...content);
      return made;
    };
    const client = marked(row.client, element(this.root.dataset.mayRead === undefined ? "span" : "a", "mcp-text"));
    if (client.tagName === "A") client.href = this.root.dataset.page.replace("SESSION", encodeURIComponent(row.id));
    const name = cell("client", client);
    if (row.ended) name.append(" ", badge("ended"), " ", marked(row.reason, element("span", "mcp-dim mcp-text")));
    [found.calls, found.streams, found.seen, found.age] = ["open calls", "open streams", "last seen", "age"].map((each) => cell(each));
    found.line.replaceChildren(
      name, cell("protocol", element("bdi", "", row.version)),
      cell("user", caller(row, element("bdi", "mcp-text"))), cell("address", marked(row.address || "–", element("bdi", "mcp-text"))),
      found.calls, found.streams, found.seen, found.age,
    );
    found.line.classList.toggle("mcp-gone", row.ended !== null);
    if (hadFocus) client.focus();
    this.refresh(found);
  }

  // What changes by itself: ages, and what the processes report.
  refresh(found) {
    const { row } = found;
    let [streams, calls, listening] = [0, row.calls, false];
    for (const { sessions } of this.live.values()) {
      const open = sessions[row.id];
      if (!open) continue;
      listening = listening || open[0];
      streams += open[1];
      calls += open[2];
    }
    const now = Date.now();
    this.say(found.age, span((row.ended ?? now) - row.created));
    this.say(found.calls, String(calls));
    this.say(found.streams, streams === 0 ? "–" : `${streams}${listening ? " listening" : ""}`);
    this.say(found.seen, now - row.seen < 1000 ? "now" : ago(now - row.seen));
  }

  say(node, text) { if (node.textContent !== text) node.textContent = text; }

  tick() {
    const now = Date.now();
    for (const [process, { heard }] of this.live) if (now - heard > STALE) this.live.delete(process);
    for (const [id, found] of this.rows) {
      if (found.row.ended && byId("mcp-state").value === "open" && now - found.row.ended > GONE) this.remove(id);
      else this.refresh(found);
    }
  }

  count() {
    // Processes tell of themselves sooner than the database answers: until then nobody knows of any session.
    if (!this.isRead && !this.rows.size) return;
    const open = [...this.rows.values()].filter(({ row }) => !row.ended).length;
    let [streams, elsewhere] = [0, 0];
    for (const { sessions } of this.live.values()) {
      for (const [id, open] of Object.entries(sessions)) {
        streams += open[1];
        if (!this.rows.has(id)) elsewhere += open[1];
      }
    }
    // What a search or the state leaves out has streams, too: with these, the rows add up.
    const others = elsewhere ? ` (${elsewhere} of sessions that are not in this list)` : "";
    byId("mcp-count").textContent = `${counted(this.rows.size, "session")} (${open} open)${this.more ? " and more: search for the others" : ""}, ${counted(streams, "open stream")}${others}`;
    byId("mcp-empty").hidden = this.rows.size > 0;
    const left = byId("mcp-rows").classList.contains("mcp-all") ? 0 : Math.max(0, this.rows.size - AT_FIRST);
    show(byId("mcp-more"), left ? `Show ${left} more` : "");
  }
}

new Sessions(document.querySelector(".mcp-console"));
