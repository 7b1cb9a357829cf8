// The list of messages: each once, in the order of time, and never more than the page can carry.

import { day } from "../times.js";
import { OPEN, gap, isOpen, lineOf, took } from "./line.js";
import { byId } from "./text.js";

const MOST = 1000;
const NEAR = 40;
// Difference in milliseconds that clocks may add between the start of a call and its mark; `pending.py` has it, too.
const SLACK = 1000;
// Requests whose answers are remembered: lines of several processes may arrive after the answer.
const MOST_ANSWERED = 2000;

// Notifications of one change to many sessions are one line; `broadcasts.py` has the same rule.
const BROADCAST = /^notifications\/(tools|prompts|resources)\/(list_changed|updated)$/;
const WITHIN = 10000;

const requestOf = (row) => JSON.stringify([row.session || row.who, row.id, row.method, row.target]);
const isAnswer = (row) => row.kind === "request" && row.dir === "in";

// True if a row ends a mark of the same request.
function replaces(row, mark) {
  if (mark.at > row.at) return false;
  if (!isAnswer(row)) return OPEN.indexOf(row.kind) > OPEN.indexOf(mark.kind);
  return mark.kind !== "running" || row.ms === null || mark.at >= row.at - row.ms - SLACK;
}

export class List {
  constructor({ across, onScroll, onReplaced }) {
    this.across = across;
    this.onReplaced = onReplaced;
    this.list = byId("mcp-lines");
    this.box = byId("mcp-scroll");
    this.rows = new Map();
    // The marks that are shown, and the newest answer of each request.
    this.pending = new Map();
    this.answers = new Map();
    this.broadcasts = new Map();
    // True if the search names neither a session nor a method.
    this.grouping = across;
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
    this.pending.clear();
    this.broadcasts.clear();
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

  // Puts an answer in the place of its mark; returns whether there was one.
  swap(row) {
    if (!isAnswer(row)) return false;
    const mark = (this.pending.get(requestOf(row)) ?? []).find((each) => replaces(row, each.row));
    if (!mark) return false;
    const [place, made] = [document.createComment(""), document.createDocumentFragment()];
    mark.line.before(place);
    this.add(row, made);
    place.replaceWith(made);
    return true;
  }

  // Removes the marks that the server, asked anew, does not have any more.
  prune({ rows, older }) {
    const [known, since] = [new Set(rows.map(({ key }) => key)), older === null ? 0 : rows[0]?.at ?? Infinity];
    for (const marks of [...this.pending.values()]) {
      for (const { row } of marks) if (row.at >= since && !known.has(row.key)) this.remove(row);
    }
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
    const request = requestOf(row);
    if (isOpen(row) && this.answers.has(request) && replaces(this.answers.get(request), row)) return;
    if (this.joined(row)) return;
    if (row.skipped) into.append(gap(`${row.skipped} messages before this one were not logged.`));
    const line = lineOf(row, { across: this.across });
    this.rows.set(row.key, row);
    into.append(line);
    if (this.groups(row)) this.broadcasts.set(`${row.method} ${row.summary}`, { line, at: row.at, rows: [row] });
    this.answered(row, request);
    if (isOpen(row)) this.pending.set(request, [...(this.pending.get(request) ?? []), { line, row }]);
  }

  groups(row) { return this.grouping && row.kind === "notification" && row.session && BROADCAST.test(row.method); }

  // Adds a notification to the line of the same change; returns whether there is one.
  joined(row) {
    const group = this.groups(row) && this.broadcasts.get(`${row.method} ${row.summary}`);
    if (!group || Math.abs(group.at - row.at) > WITHIN) return false;
    group.rows.push(row);
    this.rows.set(row.key, row);
    const sessions = new Set(group.rows.map(({ session }) => session)).size;
    group.line.querySelector(".mcp-line-text").textContent = `notified ${sessions} sessions`;
    for (const name of ["user", "client"]) group.line.querySelector(`.mcp-line-${name}`)?.replaceChildren();
    group.line.members = group.rows;
    return true;
  }

  // The search for each message of a line that stands for several, or null.
  broadcastOf(key) {
    const members = this.line(key)?.members;
    if (!members) return null;
    const [first, last] = [Math.min(...members.map(({ at }) => at)), Math.max(...members.map(({ at }) => at))];
    const written = (at) => `${new Date(at).toISOString().slice(0, 19)}Z`;
    return `method:${members[0].method} since:${written(first)} until:${written(last)}`;
  }

  // Removes the marks of a request that a row ends, whether the row itself is in the list or not.
  answered(row, request = requestOf(row)) {
    if (isAnswer(row)) {
      this.answers.delete(request);
      this.answers.set(request, row);
      if (this.answers.size > MOST_ANSWERED) this.answers.delete(this.answers.keys().next().value);
    }
    for (const mark of this.pending.get(request) ?? []) {
      if (!replaces(row, mark.row)) continue;
      this.remove(mark.row);
      this.onReplaced(mark.row.key, row);
    }
    byId("mcp-empty").hidden = this.rows.size > 0;
  }

  // Removes a mark from the list.
  remove(mark) {
    const request = requestOf(mark);
    const others = (this.pending.get(request) ?? []).filter(({ row }) => row.key !== mark.key);
    if (others.length > 0) this.pending.set(request, others);
    else this.pending.delete(request);
    this.line(mark.key)?.remove();
    this.rows.delete(mark.key);
  }

  // Processes hand their lines on in turns: one that is older than those before it goes in front of them.
  settle(line) {
    const at = (node) => this.rows.get(node?.dataset.key)?.at;
    let place = line;
    while (at(place.previousElementSibling) > at(line)) place = place.previousElementSibling;
    if (place !== line) place.before(line);
  }

  grow() {
    for (const marks of this.pending.values()) {
      for (const { line, row } of marks) took(line.querySelector(".mcp-took"), Date.now() - row.at);
    }
  }

  drop(count, next) {
    for (let left = count; left > 0; left -= 1) {
      const line = next();
      const row = this.rows.get(line.dataset.key);
      this.rows.delete(line.dataset.key);
      for (const { key } of line.members ?? []) this.rows.delete(key);
      if (row && isOpen(row)) this.pending.delete(requestOf(row));
      line.remove();
    }
    return count > 0;
  }

  line(key) { return this.list.querySelector(`[data-key="${CSS.escape(key)}"]`); }
}
