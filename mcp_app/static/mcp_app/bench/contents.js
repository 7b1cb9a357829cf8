// What came back, shown by its type. All of it is somebody else's words: text nodes and data: addresses only.

import { element, block, isObject, line, lines, sortedJson } from "./text.js";

const PICTURES = /^image\/(?:png|jpeg|gif|webp|avif|bmp|svg\+xml|x-icon)$/i;
const SAVED_AS_THEY_ARE = /^(?:image\/(?:png|jpeg|gif|webp|avif|bmp|x-icon)|audio\/[\w.+-]+)$/i;
const SOUNDS = /^audio\/[\w.+-]+$/i;
const BASE64 = /^[A-Za-z0-9+/\s]*={0,2}\s*$/;
const TREE_OPEN = 2;
const TREE_MOST = 2000;
const LONGEST = 200_000;
const INCIDENT = /\(incident [0-9a-f]{8}\)/g;
const CUT = "django-mcp/cut";
const STORED = /result:\/\/[0-9a-f]{32}/g;

// `read(uri)` reads a resource that a result points to.
export function shownResult(kind, result, read) {
  const made = document.createDocumentFragment();
  if (!isObject(result)) {
    made.append(block(JSON.stringify(result)));
    return made;
  }
  if (kind === "tool") toolResult(made, result, read);
  else if (kind === "prompt") promptResult(made, result, read);
  else for (const content of listOf(result.contents)) made.append(resourceContent(content));
  if (isObject(result._meta)) made.append(folded("_meta", tree(result._meta)));
  return made;
}

function toolResult(made, result, read) {
  const contents = listOf(result.content);
  const cut = result._meta?.[CUT];
  if (isObject(cut)) made.append(element("p", { class: "mcp-note mcp-note-warn", "data-cut": "" }, cutNote(cut)));
  for (const content of contents) made.append(contentBlock(content, read));
  if (result.structuredContent !== undefined) {
    made.append(element("section", { class: "mcp-bench-content" }, caption("structuredContent"), tree(result.structuredContent)));
  }
  if (contents.length === 0 && result.structuredContent === undefined) made.append(element("p", { class: "mcp-dim" }, "An empty result."));
}

// The sizes of a result that was cut to the bound of its tool.
function cutNote({ bytes, sentBytes, pages }) {
  const rest = Number.isInteger(pages) ? `The whole can be read in ${pages} pages.` : "The rest is not stored.";
  return `Cut: a model gets ${size(sentBytes)} of ${size(bytes)}. ${rest}`;
}

function size(bytes) {
  const kib = (Number(bytes) || 0) / 1024;
  return `${kib.toLocaleString("en", { maximumFractionDigits: kib < 10 ? 1 : 0 })} KiB`;
}

function promptResult(made, result, read) {
  if (typeof result.description === "string") made.append(element("p", { class: "mcp-dim" }, line(result.description)));
  for (const message of listOf(result.messages)) {
    const contents = Array.isArray(message?.content) ? message.content : [message?.content];
    made.append(element("section", { class: "mcp-bench-turn" },
      element("span", { class: "mcp-badge" }, line(message?.role ?? "nobody")), ...contents.map((content) => contentBlock(content, read))));
  }
}

function listOf(value) { return Array.isArray(value) ? value : []; }

function caption(...words) { return element("p", { class: "mcp-bench-caption mcp-dim" }, ...words); }

function folded(title, ...inside) { return element("details", { class: "mcp-details" }, element("summary", {}, title), ...inside); }

export function contentBlock(content, read) {
  const made = element("section", { class: "mcp-bench-content" });
  if (!isObject(content)) made.append(block(JSON.stringify(content ?? null)));
  else if (content.type === "text" && typeof content.text === "string") made.append(text(content.text));
  else if (content.type === "image") made.append(media(content.data, content.mimeType));
  else if (content.type === "audio") made.append(media(content.data, content.mimeType));
  else if (content.type === "resource") made.append(resourceContent(content.resource));
  else if (content.type === "resource_link") made.append(resourceLink(content, read));
  else made.append(caption("content of the type ", line(content.type ?? "?")), tree(content));
  if (isObject(content?.annotations)) made.append(folded("annotations", tree(content.annotations)));
  return made;
}

// Text; one that is JSON as a tree, one that looks like Markdown also in its few safe shapes.
function text(words, mimeType = "") {
  const cut = words.length > LONGEST ? `${words.slice(0, LONGEST)}…` : words;
  const plain = block(cut);
  const value = /^\s*[[{]/.test(words) && words.length <= LONGEST ? parsed(words) : undefined;
  if (value !== undefined && typeof value === "object" && value !== null) return switched("As a tree", "As text", tree(value), plain);
  if (mimeType === "text/markdown" || looksLikeMarkdown(cut)) return switched("As Markdown", "As text", markdown(cut), plain);
  return plain;
}

function parsed(words) {
  try {
    return JSON.parse(words);
  } catch {
    return undefined;
  }
}

function switched(first, second, one, other) {
  const button = element("button", { class: "mcp-button mcp-bench-small", type: "button" }, second);
  other.hidden = true;
  button.addEventListener("click", () => {
    [one.hidden, other.hidden] = [other.hidden, one.hidden];
    button.textContent = one.hidden ? first : second;
  });
  return element("div", { class: "mcp-bench-switched" }, one, other, button);
}

function media(data, mimeType) {
  const type = typeof mimeType === "string" ? mimeType : "";
  if (typeof data !== "string" || !BASE64.test(data.slice(0, 4096))) return block(JSON.stringify({ data, mimeType }, null, 2).slice(0, LONGEST));
  const bytes = `base64,${data.replace(/\s/g, "")}`;
  const address = `data:${type};${bytes}`;
  // What a browser would run when it opens the file is saved as bytes of no kind.
  const saved = SAVED_AS_THEY_ARE.test(type) ? address : `data:application/octet-stream;${bytes}`;
  const about = caption(line(type || "no type"), ` · ${Math.floor((data.length * 3) / 4)} bytes · `, element("a", { href: saved, download: "content" }, "Save"));
  if (PICTURES.test(type)) return element("figure", {}, element("img", { class: "mcp-bench-image", src: address, alt: "Picture in the result" }), about);
  if (SOUNDS.test(type)) return element("figure", {}, element("audio", { controls: true, src: address }), about);
  return element("div", {}, about);
}

function resourceContent(resource) {
  if (!isObject(resource)) return block(JSON.stringify(resource ?? null));
  const about = caption("resource ", line(resource.uri ?? "?"), " ", line(resource.mimeType ?? ""));
  const inside = typeof resource.text === "string" ? text(resource.text, resource.mimeType) : media(resource.blob, resource.mimeType);
  return element("section", { class: "mcp-bench-content" }, about, inside);
}

function resourceLink(link, read) {
  const uri = typeof link.uri === "string" ? link.uri : "";
  const holder = element("div");
  const button = read && element("button", { class: "mcp-button mcp-bench-small", type: "button" }, "Read it");
  button?.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const result = await read(uri);
      holder.replaceChildren(...listOf(result?.contents).map(resourceContent));
    } catch (error) {
      holder.replaceChildren(element("p", { class: "mcp-note mcp-note-bad" }, line(error.message)));
    }
    button.disabled = false;
  });
  const about = [link.title ?? link.name, link.description].filter((words) => typeof words === "string" && words);
  return element("div", {}, caption("link to a resource"), element("p", {}, webLink(uri)), ...about.map((words) => element("p", { class: "mcp-dim" }, line(words))), button, holder);
}

// An address that a browser may open; others stand as text.
export function webLink(address) {
  if (!/^https?:\/\/[^\s]+$/i.test(address)) return line(address);
  return element("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, line(address));
}

// JSON that is opened piece by piece.
export function tree(value) {
  const room = { left: TREE_MOST };
  return element("div", { class: "mcp-bench-tree" }, branch(null, value, 0, room));
}

function branch(name, value, depth, room) {
  room.left -= 1;
  const label = name === null ? [] : [element("span", { class: "mcp-bench-name" }, line(name)), ": "];
  if (value === null || typeof value !== "object") {
    const kind = value === null ? "null" : typeof value;
    return element("div", { class: "mcp-bench-leaf" }, ...label, element("span", { class: `mcp-bench-${kind}` }, line(kind === "string" ? JSON.stringify(value) : String(value))));
  }
  const items = Array.isArray(value) ? value.map((item, place) => [String(place), item]) : Object.entries(value);
  const size = Array.isArray(value) ? `[${items.length}]` : `{${items.length}}`;
  const node = element("details", { class: "mcp-bench-branch" }, element("summary", {}, ...label, element("span", { class: "mcp-dim" }, size)));
  const fill = () => {
    if (node.dataset.filled) return;
    node.dataset.filled = "1";
    for (const [key, item] of items) {
      if (room.left <= 0) {
        node.append(block(JSON.stringify(Object.fromEntries(items), null, 2).slice(0, LONGEST)));
        return;
      }
      node.append(branch(key, item, depth + 1, room));
    }
  };
  node.addEventListener("toggle", () => { if (node.open) { room.left = Math.max(room.left, 200); fill(); } });
  if (depth < TREE_OPEN && items.length <= 100) {
    fill();
    node.open = true;
  }
  return node;
}

// Headings, lists, quotes, code and paragraphs; no links, no pictures, no HTML: all else stays as it was written.
function looksLikeMarkdown(words) {
  return /^(?:#{1,6} |[-*] |\d+\. |```|> )/m.test(words) && words.includes("\n");
}

export function markdown(words) {
  const made = element("div", { class: "mcp-bench-markdown" });
  let code = null;
  let list = null;
  let paragraph = null;
  for (const row of words.split("\n")) {
    const fence = /^```/.test(row);
    if (code !== null) {
      if (fence) {
        made.append(block(code.join("\n")));
        code = null;
      } else {
        code.push(row);
      }
      continue;
    }
    const [, hashes, heading] = /^(#{1,6}) (.*)$/.exec(row) ?? [];
    const [, bullet, item] = /^\s*([-*]|\d+\.) (.*)$/.exec(row) ?? [];
    const [, quote] = /^> ?(.*)$/.exec(row) ?? [];
    if (fence) code = [];
    if (bullet === undefined) list = null;
    if (fence || hashes || bullet !== undefined || quote !== undefined || row.trim() === "") paragraph = null;
    if (hashes) made.append(element("p", { class: `mcp-bench-heading mcp-bench-heading-${Math.min(hashes.length, 3)}`, role: "heading", "aria-level": String(hashes.length + 2) }, inline(heading)));
    else if (bullet !== undefined) {
      const tag = /\d/.test(bullet) ? "ol" : "ul";
      if (list?.tagName.toLowerCase() !== tag) made.append(list = element(tag));
      list.append(element("li", {}, inline(item)));
    } else if (quote !== undefined) made.append(element("blockquote", {}, inline(quote)));
    else if (!fence && row.trim() !== "") {
      if (paragraph) paragraph.append("\n", inline(row));
      else made.append(paragraph = element("p", {}, inline(row)));
    }
  }
  if (code !== null) made.append(block(code.join("\n")));
  return made;
}

function inline(words) {
  const made = document.createDocumentFragment();
  for (const piece of words.split(/(`[^`]+`|\*\*[^*]+\*\*)/)) {
    if (/^`.+`$/.test(piece)) made.append(element("code", {}, lines(piece.slice(1, -1))));
    else if (/^\*\*.+\*\*$/.test(piece)) made.append(element("strong", {}, lines(piece.slice(2, -2))));
    else made.append(lines(piece));
  }
  return made;
}

// A result or an error as lines that can be compared.
export function comparable(answer) {
  return (typeof answer === "string" ? answer : sortedJson(answer ?? null)).split("\n");
}

// The part of a result that the entry's code determines, without the envelope: its metadata, the members of one
// protocol revision, the number of an incident and the address of a stored result differ in each run.
export function essence(answer) {
  if (!isObject(answer)) return plain(answer);
  const { content, structuredContent, isError, messages, description, contents } = answer;
  if (content !== undefined) return plain({ content, structuredContent, isError: isError === true });
  if (messages !== undefined) return plain({ description, messages });
  return plain(contents === undefined ? answer : { contents });
}

function plain(value) {
  if (typeof value === "string") return value.replace(INCIDENT, "(incident …)").replace(STORED, "result://…");
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([name]) => name !== "_meta").map(([name, item]) => [name, plain(item)]));
}
