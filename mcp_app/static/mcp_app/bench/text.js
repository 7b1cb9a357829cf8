// Text of unknown origin as DOM nodes: never markup, and hidden characters become visible marks. The same rule as
// the server's (text.py).

const HIDDEN_IN_BLOCK = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e01ef}\ud800-\udfff]/u;
const HIDDEN_IN_LINE = new RegExp(`[\\t\\n]|${HIDDEN_IN_BLOCK.source}`, "u");

// An element: properties (class, text, data-… and any attribute) and children; strings become text nodes.
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function mark(character) {
  const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return element("b", { class: "mcp-mark" }, `U+${code}`);
}

function marked(text, hidden) {
  const made = document.createDocumentFragment();
  let rest = String(text);
  for (let found = hidden.exec(rest); found; found = hidden.exec(rest)) {
    made.append(rest.slice(0, found.index), mark(found[0]));
    rest = rest.slice(found.index + found[0].length);
  }
  made.append(rest);
  return made;
}

// One line; line feeds are marked too.
export function line(text) {
  return element("bdi", { class: "mcp-text" }, marked(text, HIDDEN_IN_LINE));
}

// Several lines in a scrolling box.
export function block(text, more = "") {
  return element("pre", { class: `mcp-pre ${more}`.trim(), tabindex: "0" }, marked(text, HIDDEN_IN_BLOCK));
}

// Lines without a box of their own.
export function lines(text) {
  return marked(text, HIDDEN_IN_BLOCK);
}

// JSON as people compare it: members in a fixed order.
export function sortedJson(value) {
  return JSON.stringify(value, (_, item) => {
    if (item === null || typeof item !== "object" || Array.isArray(item)) return item;
    return Object.fromEntries(Object.entries(item).sort(([one], [other]) => (one < other ? -1 : 1)));
  }, 2);
}

export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
