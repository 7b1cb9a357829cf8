// The names in a message, as links to the pages that the visitor may open.

import { element, marked } from "./text.js";

const CREDENTIAL = /\/(key|client):(\d+)$/;
const USER = /^user:([^/]+)/;

function root() { return document.querySelector(".mcp-console").dataset; }

function linked(text, address, id) {
  const node = element(address && id ? "a" : "span", "mcp-link");
  if (address && id) node.href = address.replace("ID", encodeURIComponent(id));
  return marked(text, node);
}

// The user and the API key or OAuth client of a row.
export function caller({ who, user, credential }, node) {
  const pages = root();
  const [, kind, id] = CREDENTIAL.exec(who) ?? [];
  node.replaceChildren(linked(user || who || "–", pages.userPage, USER.exec(who)?.[1]));
  if (credential) node.append(" · ", linked(credential, kind === "key" ? pages.keyPage : pages.clientPage, id));
  node.title = who;
  return node;
}

export function client({ session, client: name }, node) {
  const address = session ? root().page?.replace("SESSION", "ID") : "";
  node.replaceChildren(...(name ? [linked(name, address, session)] : []));
  return node;
}

// The tool or the method of a row: an unknown tool has the name that was asked for.
export function title(row, node) {
  if (row.asked) {
    const unknown = marked(row.asked, element("span", "mcp-unknown"));
    unknown.title = "unknown tool";
    node.append(unknown);
  } else if (row.method === "tools/call" && row.target) {
    const name = linked(row.target, root().toolPage, row.tool);
    node.append(name.tagName === "A" ? name : marked(row.target, element("b")));
  } else {
    node.append(marked(row.method || row.kind, element("span", "mcp-method")));
    if (row.target) node.append(" ", marked(row.target, element("b")));
  }
  return node;
}
