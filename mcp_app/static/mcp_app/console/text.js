// Small pieces that the console's pages are built of. All text goes in as text, never as markup.

export const byId = (id) => document.getElementById(id);

export function element(tag, className = "", text = null) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== null) made.textContent = text;
  return made;
}

export function badge(text, tone = "plain") {
  return element("span", `mcp-badge mcp-badge-${tone}`, text);
}

// Text in which the server marked hidden characters (⟦U+202E⟧) and what was taken out ([redacted]).
const MARKS = /(⟦U\+[0-9A-F]{4,6}⟧|\[redacted\])/;
export function marked(text, into) {
  for (const [place, piece] of text.split(MARKS).entries()) {
    if (place % 2 === 0) into.append(piece);
    else if (piece === "[redacted]") into.append(element("span", "mcp-redacted", "redacted"));
    else into.append(element("b", "mcp-mark", piece.slice(1, -1)));
  }
  return into;
}

// A button that cancels a call. It asks first, in the words of the page of a call.
export function cancelling(words, address, request, after = () => {}) {
  const made = element("button", "mcp-button mcp-danger", words);
  made.type = "button";
  made.dataset.sure = "Cancel this call? Its work stops, and its client is notified.";
  made.dataset.sureYes = "Cancel the call";
  made.dataset.sureNo = "Keep it running";
  made.addEventListener("click", async () => {
    // A button that is not for pressing any more cannot have the focus; whoever works by keys goes on nearby.
    (made.closest(".mcp-detail-pane") ?? byId("mcp-scroll")).focus({ preventScroll: true });
    made.disabled = true;
    const { ok, data } = await fetched(address, { request });
    made.textContent = data?.note ?? "It could not be cancelled.";
    made.disabled = ok;
    after();
  });
  return made;
}

export function show(node, text) {
  node.textContent = text;
  node.hidden = text === "";
}

// What a page asks of the server; null when it may not or cannot have it.
export async function fetched(address, body = null) {
  const options = { headers: { Accept: "application/json" }, redirect: "error" };
  if (body !== null) {
    const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
    options.method = "POST";
    options.headers["X-CSRFToken"] = token;
    options.body = new URLSearchParams(body);
  }
  try {
    const answer = await fetch(address, options);
    return { ok: answer.ok, status: answer.status, data: answer.headers.get("content-type")?.includes("json") ? await answer.json() : null };
  } catch {
    return { ok: false, status: 0, data: null };
  }
}
