// Two texts side by side, the lines that differ marked.

import { element, lines } from "./text.js";

const MOST_LINES = 2000;
const SAME_SHOWN = 3;

// Pairs [one, other] of lines; null stands where the other side has a line more.
export function pairs(one, other) {
  if (one.length > MOST_LINES || other.length > MOST_LINES) return null;
  const start = commonStart(one, other);
  const end = commonStart([...one.slice(start)].reverse(), [...other.slice(start)].reverse());
  const middle = matched(one.slice(start, one.length - end), other.slice(start, other.length - end));
  const both = (list) => list.map((line) => [line, line]);
  return [...both(one.slice(0, start)), ...middle, ...both(end ? one.slice(-end) : [])];
}

function commonStart(one, other) {
  let place = 0;
  while (place < one.length && place < other.length && one[place] === other[place]) place += 1;
  return place;
}

// The longest common sequence; lines between two common ones stand beside each other.
function matched(one, other) {
  const width = other.length + 1;
  const lengths = new Uint16Array((one.length + 1) * width);
  for (let x = one.length - 1; x >= 0; x -= 1) {
    for (let y = other.length - 1; y >= 0; y -= 1) {
      lengths[x * width + y] = one[x] === other[y]
        ? lengths[(x + 1) * width + y + 1] + 1
        : Math.max(lengths[(x + 1) * width + y], lengths[x * width + y + 1]);
    }
  }
  const found = [];
  let [left, right, x, y] = [[], [], 0, 0];
  const settle = () => {
    for (let place = 0; place < Math.max(left.length, right.length); place += 1) found.push([left[place] ?? null, right[place] ?? null]);
    [left, right] = [[], []];
  };
  while (x < one.length || y < other.length) {
    if (x < one.length && y < other.length && one[x] === other[y]) {
      settle();
      found.push([one[x], other[y]]);
      x += 1;
      y += 1;
    } else if (y >= other.length || (x < one.length && lengths[(x + 1) * width + y] >= lengths[x * width + y + 1])) {
      left.push(one[x]);
      x += 1;
    } else {
      right.push(other[y]);
      y += 1;
    }
  }
  settle();
  return found;
}

export function comparison(titles, one, other) {
  const found = pairs(one, other);
  if (found === null) return element("p", { class: "mcp-note mcp-note-warn" }, "Too long to compare line by line.");
  const differing = found.filter(([left, right]) => left !== right).length;
  const head = element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title)));
  const table = element("table", { class: "mcp-bench-compare" }, element("thead", {}, head), element("tbody", {}, ...rows(found)));
  const said = differing === 0 ? "No difference." : `${differing} ${differing === 1 ? "line differs" : "lines differ"}.`;
  return element("div", {}, element("p", { class: `mcp-note ${differing ? "mcp-note-warn" : ""}`, "data-bench-differing": String(differing) }, said), element("div", { class: "mcp-table" }, table));
}

// Long stretches of equal lines are left out but for their ends.
function rows(found) {
  const near = found.map((_, place) => found.slice(Math.max(0, place - SAME_SHOWN), place + SAME_SHOWN + 1).some(([left, right]) => left !== right));
  const all = found.length <= 200;
  const made = [];
  for (const [place, [left, right]] of found.entries()) {
    if (all || near[place]) made.push(element("tr", {}, cell(left, left === right, "mcp-removed"), cell(right, left === right, "mcp-added")));
    else if (near[place - 1] || place === 0) made.push(element("tr", {}, element("td", { class: "mcp-skip", colspan: "2" }, "…")));
  }
  return made;
}

function cell(text, same, kind) {
  if (text === null) return element("td", { class: "mcp-bench-missing" });
  return element("td", { class: same ? null : kind }, lines(text));
}
