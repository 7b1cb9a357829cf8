// Pinned messages of a page: kept by the browser, so that they are there after a reload.

import { lineOf } from "./line.js";
import { byId } from "./text.js";

const MOST = 20;

export class Pins {
  constructor(name, across) {
    this.name = `mcp-console-pins ${name}`;
    this.across = across;
    this.box = byId("mcp-pins");
    try {
      this.rows = new Map(JSON.parse(localStorage.getItem(this.name) ?? "[]").map((row) => [row.key, row]));
    } catch {
      this.rows = new Map();
    }
    this.draw();
  }

  has(key) { return this.rows.has(key); }

  // Pins a message, or takes it off; returns whether it is pinned now.
  toggle(row) {
    if (!this.rows.delete(row.key)) this.rows.set(row.key, row);
    while (this.rows.size > MOST) this.rows.delete(this.rows.keys().next().value);
    this.keep();
    return this.has(row.key);
  }

  keep() {
    localStorage.setItem(this.name, JSON.stringify([...this.rows.values()]));
    this.draw();
  }

  // Pins the answer in the place of the mark that it ends.
  replace(key, row) {
    if (!this.rows.delete(key)) return;
    this.rows.set(row.key, row);
    this.keep();
  }

  draw() {
    const lines = [...this.rows.values()].map((row) => lineOf(row, { across: this.across }));
    for (const line of lines) this.show(line);
    this.box.replaceChildren(...lines);
    this.box.hidden = lines.length === 0;
    for (const line of document.querySelectorAll("#mcp-lines .mcp-line")) this.show(line);
  }

  show(line) {
    const pin = line.querySelector(".mcp-line-pin");
    const on = String(this.has(line.dataset.key));
    if (pin.getAttribute("aria-pressed") !== on) pin.setAttribute("aria-pressed", on);
  }
}
