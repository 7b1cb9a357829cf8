// The list of messages: each once, in the order of time, and never more than the page can carry.

import { day } from "../times.js";
import { gap, isOpen, lineOf, took } from "./line.js";
import { byId, element } from "./text.js";

const MOST = 1000;
const NEAR = 40;
// A request without an answer after this long will not get one: its process died, or the line was lost.
const LONGEST_RUN = 20 * 60 * 1000;

export class List {
  constructor({ across, onScroll }) {
    this.across = across;
    this.list = byId("mcp-lines");
    this.box = byId("mcp-scroll");
    this.rows = new Map();
    this.running = new Map();
    this.following = true;
    this.day = day(Date.now());
    this.box.addEventListener("scroll", () => onScroll(this.atEnd()));
    window.setInterval(() => this.grow(), 1000);
  }

  atEnd() { return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR; }

  toEnd() { this.box.scrollTop = this.box.scrollHeight; }

  clear() {
    this.list.replaceChildren();
    this.rows.clear();
    this.running.clear();
    this.day = day(Date.now());
    byId("mcp-empty").hidden = true;
  }

  // Appends what is new of some rows; returns how many were.
  append(rows) {
    const made = document.createDocumentFragment();
    const before = this.rows.size;
    for (const row of rows) {
      this.day = this.dated(row, this.day, made);
      this.add(row, made);
    }
    const added = [...made.children];
    this.list.append(made);
    for (const line of added) this.settle(line);
    this.drop(this.list.children.length - MOST, () => this.list.firstElementChild);
    byId("mcp-empty").hidden = this.list.children.length > 0;
    if (this.following) this.toEnd();
    return this.rows.size - before;
  }

  // Puts older rows in front; what does not fit any more goes at the other end. Returns whether something did.
  prepend(rows) {
    const made = document.createDocumentFragment();
    const today = day(Date.now());
    let shown = today;
    for (const row of rows) {
      shown = this.dated(row, shown, made);
      this.add(row, made);
    }
    // What is there without a date is of today.
    const first = this.rows.get(this.list.querySelector(".mcp-line")?.dataset.key);
    if (shown !== today && first && day(first.at) === today) made.append(gap(today, "mcp-day"));
    const height = this.box.scrollHeight;
    this.list.prepend(made);
    this.box.scrollTop += this.box.scrollHeight - height;
    byId("mcp-empty").hidden = this.list.children.length > 0;
    return this.drop(this.list.children.length - MOST, () => this.list.lastElementChild);
  }

  mark(text) {
    const last = this.list.lastElementChild;
    if (last?.dataset.count && text.count) {
      // Marks of one kind in a row become one.
      last.dataset.count = Number(last.dataset.count) + text.count;
      last.textContent = text.words(Number(last.dataset.count));
      return;
    }
    const node = gap(text.words(text.count));
    if (text.count) node.dataset.count = text.count;
    this.list.append(node);
    byId("mcp-empty").hidden = true;
    if (this.following) this.toEnd();
  }

  // Lines have a time alone: the date stands before the first one of another day. Returns the day.
  dated(row, before, into) {
    const now = day(row.at);
    if (now !== before && !this.rows.has(row.key)) into.append(gap(now, "mcp-day"));
    return now;
  }

  add(row, into) {
    if (this.rows.has(row.key)) return;
    if (row.skipped) into.append(gap(`${row.skipped} messages before this one were not logged.`));
    const line = lineOf(row, { across: this.across });
    this.rows.set(row.key, row);
    into.append(line);
    const request = `${row.session} ${row.id}`;
    if (isOpen(row)) {
      if (this.running.has(request)) this.over(this.running.get(request).line, "began");
      if (row.kind === "waiting" || Date.now() - row.at < LONGEST_RUN) this.running.set(request, { line, row });
      else this.over(line, "no answer");
    } else if (row.kind === "request" && row.dir === "in" && this.running.has(request)) {
      this.over(this.running.get(request).line, "answered");
      this.running.delete(request);
    }
  }

  // Processes hand their lines on in turns: one that is older than those before it goes in front of them.
  settle(line) {
    const at = (node) => this.rows.get(node?.dataset.key)?.at;
    let place = line;
    while (at(place.previousElementSibling) > at(line)) place = place.previousElementSibling;
    if (place !== line) place.before(line);
  }

  over(line, words) {
    line.classList.add("mcp-over");
    // How long it took stands on the line of the answer; this one knew only how long it had waited.
    line.querySelector(".mcp-took").replaceChildren();
    line.querySelector(".mcp-status").replaceChildren(element("span", "mcp-badge mcp-badge-plain", words));
  }

  grow() {
    for (const { line, row } of this.running.values()) {
      const bar = line.querySelector(".mcp-took");
      if (bar.firstElementChild) took(bar, Date.now() - row.at);
    }
  }

  drop(count, next) {
    for (let left = count; left > 0; left -= 1) {
      const line = next();
      this.rows.delete(line.dataset.key);
      line.remove();
    }
    return count > 0;
  }

  line(key) { return this.list.querySelector(`[data-key="${CSS.escape(key)}"]`); }
}
