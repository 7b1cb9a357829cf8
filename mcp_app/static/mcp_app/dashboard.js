// The parts of a section (data-part), such as the figures of the first page, are fetched again while the page is
// visible: every ten seconds, or after data-every milliseconds. Without scripts, they stay as they were loaded.
"use strict";

const FRESH_EVERY = 10000;
const FRESH_SLOWEST = 120000;

class Dashboard {
  constructor(section) {
    this.section = section;
    this.stale = section.querySelector("[data-stale]");
    this.every = Number(section.dataset.every) || FRESH_EVERY;
    this.pause = this.every;
    this.timer = 0;
    this.asking = false;
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.look(); });
    this.next();
  }

  next() {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.look(), this.pause);
  }

  async look() {
    if (document.hidden || this.asking) return; // Shown again, it looks at once.
    this.asking = true;
    try {
      const answer = await fetch(this.section.dataset.dashboard, { headers: { Accept: "text/html" }, redirect: "error" });
      if (answer.status >= 400 && answer.status < 500) { this.stale.hidden = false; return; } // Asking again will not help.
      if (!answer.ok) throw new Error(answer.status);
      this.show(await answer.text());
      this.pause = this.every;
      this.stale.hidden = true;
    } catch {
      this.pause = Math.min(this.pause * 2, FRESH_SLOWEST); // The server restarts, or the network is away.
      this.stale.hidden = false;
    } finally {
      this.asking = false;
    }
    this.next();
  }

  // A parsed document runs nothing and loads nothing; only parts that differ are put in place of the old ones.
  show(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    window.mcpBrush?.begin(fresh);
    for (const part of this.section.querySelectorAll("[data-part]")) {
      const newer = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
      if (!newer) continue;
      for (const kept of part.querySelectorAll("details[data-keep]")) {
        const same = newer.querySelector(`details[data-keep="${kept.dataset.keep}"]`);
        if (same) same.open = kept.open;
      }
      // What somebody chooses on just now stays under their hand.
      if (!window.mcpBrush?.isUsed(part) && !part.isEqualNode(newer)) this.replace(part, newer);
    }
  }

  replace(part, newer) {
    const scrolled = [...part.querySelectorAll(".mcp-table")].map((box) => [box.scrollTop, box.scrollLeft]);
    const place = part.contains(document.activeElement) ? focusable(part).indexOf(document.activeElement) : -1;
    part.replaceChildren(...newer.childNodes);
    for (const [at, box] of [...part.querySelectorAll(".mcp-table")].entries()) {
      if (scrolled[at]) [box.scrollTop, box.scrollLeft] = scrolled[at];
    }
    if (place >= 0) focusable(part)[place]?.focus({ preventScroll: true });
  }
}

function focusable(part) { return [...part.querySelectorAll("a[href], button, summary, [tabindex]")]; }

document.addEventListener("DOMContentLoaded", () => {
  for (const section of document.querySelectorAll("[data-dashboard]")) new Dashboard(section);
});
