// The page of messages, of one session or of all: what was logged so far, then what comes.

import { Connection } from "./connection.js";
import { Detail } from "./detail.js";
import { List } from "./list.js";
import { Pins } from "./pins.js";
import { SessionHead } from "./session.js";
import { byId, fetched, show } from "./text.js";

// What may wait while the page is paused; more than a list holds would be dropped at once.
const MOST_HELD = 1000;
const TYPING = 250;
// The least height of the list, and what the page has below it.
const LOWEST = 300;
const BELOW = 34;

// Why a list is empty.
function nothing(search, problems) {
  if (problems.length > 0) return "No results.";
  return search ? "No messages match." : "No messages yet.";
}

// The outcomes of the filter of the log, as the search names them.
const STATUS = { ok: "succeeded", error: "protocol_error", answered: "" };

// The term of the search that a filter stands for.
function term(key, value) {
  if (key === "text") return value.split('"').filter((words) => words.trim()).map((words) => `"${words}"`).join(" ");
  const said = key === "status" ? STATUS[value] ?? value : value;
  if (!said) return "";
  return /^[^\s"]+$/.test(said) ? `${key}:${said}` : `${key}:"${said.replaceAll('"', "")}"`;
}

class Messages {
  constructor(root) {
    this.root = root;
    this.session = root.dataset.session;
    this.form = byId("mcp-filters");
    this.fields = [...this.form.querySelectorAll("[data-term]")];
    const across = this.session === "";
    this.list = new List({
      across, onScroll: (atEnd) => this.scrolled(atEnd), onReplaced: (key, row) => this.replaced(key, row),
    });
    this.pins = new Pins(this.session || "all", across);
    this.detail = new Detail(root, {
      onChoose: (key) => this.choose(key), onPin: (row) => this.pins.toggle(row), isPinned: (key) => this.pins.has(key),
      broadcastOf: (key) => this.list.broadcastOf(key),
    });
    this.head = across ? null : new SessionHead(root, (ended) => this.connection.setEnded(ended));
    this.held = new Map();
    this.heldSkipped = 0;
    this.paused = false;
    // Lines that come while the history is on its way; null when it is there.
    this.early = [];
    this.older = null;
    this.asked = 0;
    this.fromAddress();
    this.listen();
    this.connection = new Connection(
      root.dataset.socket, () => this.watch(),
      (frame) => this.frame(frame), () => this.lost(),
    );
  }

  fromAddress() {
    const given = new URLSearchParams(window.location.search);
    for (const field of this.fields) {
      if (given.has(field.name)) field.value = given.get(field.name);
      if (field.selectedIndex < 0) field.value = "";
    }
    this.wanted = given.get("message") ?? "";
    this.links();
  }

  search() {
    const parts = [byId("mcp-search").value.trim(), ...this.fields.map((field) => term(field.dataset.term, field.value.trim()))];
    return parts.filter(Boolean).join(" ");
  }

  watch() {
    this.watched = this.search();
    return { watch: "messages", search: this.watched, session: this.session };
  }

  toAddress() {
    const address = new URL(window.location.pathname, window.location.href);
    if ("all" in this.root.dataset) address.searchParams.set("live", "1");
    for (const field of [byId("mcp-search"), ...this.fields]) if (field.value.trim()) address.searchParams.set(field.name, field.value.trim());
    if (this.detail.key) address.searchParams.set("message", this.detail.key);
    window.history.replaceState(null, "", address);
    this.links();
  }

  links() {
    for (const field of document.querySelectorAll("[data-search-text]")) field.value = this.search();
    if (this.root.dataset.stored && byId("mcp-live")) byId("mcp-live").href = `${this.root.dataset.stored}?${new URLSearchParams({ q: this.search() })}`;
    for (const form of ["jsonl", "har"]) {
      const query = new URLSearchParams({ form, session: this.session, search: this.search() });
      byId(`mcp-${form}`).href = `${this.root.dataset.download}?${query}`;
    }
  }

  listen() {
    let typing = 0;
    byId("mcp-search").addEventListener("input", () => {
      window.clearTimeout(typing);
      typing = window.setTimeout(() => this.searched(), TYPING);
    });
    for (const field of this.fields) field.addEventListener("change", () => this.searched());
    this.form.addEventListener("submit", (event) => {
      if (event.submitter === byId("mcp-live")) return;
      event.preventDefault();
      this.searched();
    });
    byId("mcp-pause").addEventListener("click", () => (this.paused ? this.follow() : this.pause(false)));
    byId("mcp-new").addEventListener("click", () => this.follow());
    byId("mcp-clear").addEventListener("click", () => { this.list.clear(); this.older = null; byId("mcp-older").hidden = true; });
    byId("mcp-older").addEventListener("click", () => this.loadOlder());
    for (const box of [byId("mcp-lines"), byId("mcp-pins")]) box.addEventListener("click", (event) => this.clicked(event));
    document.addEventListener("keydown", (event) => this.key(event));
    // What is above the list comes and goes (running calls, notes); the end of the list stays in sight.
    const fit = () => this.fit();
    new ResizeObserver(fit).observe(this.root);
    window.addEventListener("resize", fit);
  }

  fit() {
    const split = byId("mcp-split");
    const top = split.getBoundingClientRect().top + window.scrollY;
    const height = Math.max(LOWEST, window.innerHeight - top - BELOW);
    if (window.matchMedia("(max-width: 1023px)").matches) split.style.removeProperty("height");
    else if (split.style.height !== `${height}px`) split.style.height = `${height}px`;
    if (this.list.following) this.list.toEnd();
  }

  clicked(event) {
    const line = event.target.closest(".mcp-line");
    if (!line || event.target.closest("a")) return;
    const { key } = line.dataset;
    const row = this.list.rows.get(key) ?? this.pins.rows.get(key);
    if (event.target.closest(".mcp-line-pin")) this.pins.toggle(row);
    else this.choose(key);
  }

  key(event) {
    if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); byId("mcp-search").focus(); }
    else if (event.key === "Escape" && this.detail.key) this.close();
    else if (event.key === "Enter" && event.target === byId("mcp-scroll") && this.detail.key) byId("mcp-detail").focus();
    else if (event.key === "p" && this.detail.key) this.pins.toggle(this.list.rows.get(this.detail.key) ?? this.pins.rows.get(this.detail.key));
    else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !event.target.closest("#mcp-detail")) this.step(event);
  }

  // The line below or above the chosen one; at first the newest, which is the one in sight.
  step(event) {
    const way = event.key === "ArrowDown" ? "nextElementSibling" : "previousElementSibling";
    const chosen = this.detail.key ? this.list.line(this.detail.key) : null;
    let next = chosen ? chosen[way] : byId("mcp-lines").lastElementChild;
    while (next && !next.dataset.key) next = chosen ? next[way] : next.previousElementSibling;
    if (!next) return;
    event.preventDefault();
    this.choose(next.dataset.key);
    next.scrollIntoView({ block: "nearest" });
    byId("mcp-scroll").focus({ preventScroll: true });
  }

  close() {
    const inside = byId("mcp-detail").contains(document.activeElement);
    this.detail.close();
    this.chosen();
    this.toAddress();
    if (inside) byId("mcp-scroll").focus({ preventScroll: true });
  }

  choose(key) {
    this.detail.open(key);
    this.chosen();
    this.toAddress();
    if (window.matchMedia("(max-width: 1023px)").matches) byId("mcp-detail").scrollIntoView({ block: "start" });
  }

  chosen() {
    byId("mcp-split").classList.toggle("mcp-open", Boolean(this.detail.key));
    if (this.list.following) this.list.toEnd();
    for (const line of document.querySelectorAll(".mcp-line.mcp-chosen")) line.classList.remove("mcp-chosen");
    if (this.detail.key) this.list.line(this.detail.key)?.classList.add("mcp-chosen");
  }

  // Another search: the server is told, and answers that it watches for it; then the history is read anew.
  searched() {
    this.toAddress();
    if (this.search() !== this.watched) this.connection.again();
  }

  frame(frame) {
    if (frame.problems) show(byId("mcp-problems"), frame.problems.length > 0 ? `The search has an error: ${frame.problems.join(" ")}` : "");
    if (frame.note !== undefined) show(byId("mcp-note"), frame.note);
    for (const row of frame.answered ?? []) this.list.answered(row);
    if (this.head && frame.live) this.head.heard(frame.live);
    if (this.head && frame.ended) this.head.ended(frame.ended[0].reason);
    if (frame.watching !== undefined) this.read(frame.watching);
    if (frame.rows.length > 0 && frame.note === undefined) show(byId("mcp-note"), "");
    if (frame.rows.length > 0 || frame.skipped > 0) this.arrived(frame.rows, frame.skipped);
  }

  arrived(rows, skipped) {
    if (this.early !== null) {
      this.early.push({ rows, skipped });
    } else if (this.paused) {
      this.hold(rows, skipped);
    } else {
      if (skipped) this.skipped(skipped);
      this.list.append(rows);
    }
  }

  // The line of a mark went; whoever reads it reads its answer now.
  replaced(key, row) {
    this.pins.replace(key, row);
    if (this.detail.key === key) this.choose(row.key);
  }

  skipped(count) {
    this.list.mark({ count, words: (number) => `${number} messages skipped: more came than could be sent. They are stored; reload to see them.` });
  }

  hold(rows, skipped) {
    for (const row of rows) if (!this.list.rows.has(row.key) && !this.list.swap(row)) this.held.set(row.key, row);
    this.heldSkipped += skipped;
    for (const key of this.held.keys()) {
      if (this.held.size <= MOST_HELD) break;
      this.held.delete(key);
      this.heldSkipped += 1;
    }
    const count = this.held.size + this.heldSkipped;
    show(byId("mcp-new"), count ? `${count} new` : "");
  }

  // Reads what was logged so far; the server sends what comes after by itself.
  async read(watching) {
    this.asked += 1;
    const { asked } = this;
    this.early = this.early ?? [];
    const again = this.known === watching && this.list.rows.size > 0;
    const { wanted } = this;
    const query = new URLSearchParams({ search: watching, session: this.session });
    if (wanted) query.set("around", wanted);
    let { ok, data } = await fetched(`${this.root.dataset.lines}?${query}`);
    if (asked !== this.asked) return; // Another search was made meanwhile.
    if (wanted) {
      this.wanted = "";
      this.detail.open(wanted);
      if (data?.missing) {
        query.delete("around");
        ({ ok, data } = await fetched(`${this.root.dataset.lines}?${query}`));
        if (asked !== this.asked) return;
      } else if (data?.newer) {
        this.pause(true);
        this.stale = true;
      }
    }
    const early = this.early ?? [];
    this.early = null;
    if (!ok) {
      show(byId("mcp-note"), "What was logged so far cannot be read now.");
      this.watched = null; // The same search may be tried again.
    } else if (again && this.paused) {
      // What the server dropped when it was told to watch anew, or could not send, is new all the same.
      const known = data.rows.findLastIndex(({ key }) => this.list.rows.has(key) || this.held.has(key));
      if (!this.stale && (known >= 0 || data.rows.length === 0)) this.hold(data.rows.slice(known + 1), 0);
      else this.stale = true;
    } else if (again) {
      this.rejoin(data);
    } else {
      this.list.clear();
      this.list.grouping = !this.session && !/(^|\s)(method|session):/.test(watching);
      this.held.clear();
      this.heldSkipped = 0;
      show(byId("mcp-new"), "");
      byId("mcp-empty").textContent = nothing(watching, data.problems);
      this.list.append(data.rows);
      this.setOlder(data.older);
      show(byId("mcp-note"), data.note);
      show(byId("mcp-hits"), data.hits ?? "");
    }
    if (ok && again) this.list.prune(data);
    if (ok || again) this.known = watching;
    for (const { rows, skipped } of early) this.arrived(rows, skipped);
    this.pins.draw();
    if (wanted) this.showWanted(wanted);
  }

  showWanted(key) {
    this.chosen();
    this.list.line(key)?.scrollIntoView({ block: "center" });
    if (!this.list.line(key)) show(byId("mcp-note"), "This message is not in this list: it is older, of another session, or deleted.");
  }

  // After a lost connection: the newest page joins what is there, or there is a gap, which is said.
  rejoin(data) {
    const joins = data.rows.length === 0 || data.rows.some((row) => this.list.rows.has(row.key));
    if (!joins) this.list.mark({ count: 0, words: () => "Messages of the time without a connection may be missing here; reload to see them." });
    this.list.append(data.rows);
  }

  lost() { this.early = this.early ?? []; }

  setOlder(older) {
    this.older = older;
    byId("mcp-older").hidden = older === null;
  }

  async loadOlder() {
    const button = byId("mcp-older");
    if (this.older === null || button.disabled) return;
    button.disabled = true;
    this.pause(true);
    const query = new URLSearchParams({ search: this.search(), session: this.session, before: this.older });
    const { ok, data } = await fetched(`${this.root.dataset.lines}?${query}`);
    button.disabled = false;
    if (!ok) return;
    if (this.list.prepend(data.rows)) this.stale = true;
    this.setOlder(data.older);
    this.pins.draw();
  }

  scrolled(atEnd) {
    if (!atEnd && !this.paused && this.early === null && this.list.rows.size > 0) {
      // Only people scroll upwards; what is appended is followed before this is told.
      this.pause(true);
    } else if (atEnd && this.paused && this.byScroll && !this.stale) {
      this.follow();
    }
  }

  pause(byScroll) {
    if (this.paused) return;
    this.paused = true;
    this.byScroll = byScroll;
    this.list.following = false;
    const button = byId("mcp-pause");
    button.textContent = "Follow";
    button.setAttribute("aria-pressed", "true");
  }

  follow() {
    this.paused = false;
    this.list.following = true;
    const button = byId("mcp-pause");
    button.textContent = "Pause";
    button.setAttribute("aria-pressed", "false");
    show(byId("mcp-new"), "");
    const [held, skipped] = [[...this.held.values()], this.heldSkipped];
    this.held = new Map();
    this.heldSkipped = 0;
    if (this.stale) {
      // The newest lines went to make room for old ones: read anew.
      this.stale = false;
      this.known = null;
      this.connection.again();
      return;
    }
    if (skipped) this.skipped(skipped);
    this.list.append(held);
    this.list.toEnd();
    this.pins.draw();
  }
}

new Messages(document.querySelector(".mcp-console"));
