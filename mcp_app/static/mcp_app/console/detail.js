// The pane beside the list: one message whole, what belongs to it, what can be done.

import { clock, day, span, zone } from "../times.js";
import { lineOf, sign, status } from "./line.js";
import { caller, client, title } from "./names.js";
import { byId, cancelling, element, fetched, marked } from "./text.js";

export class Detail {
  constructor(root, { onChoose, onPin, isPinned, broadcastOf }) {
    this.root = root;
    this.pane = byId("mcp-detail");
    this.onPin = onPin;
    this.broadcastOf = broadcastOf;
    this.isPinned = isPinned;
    this.pane.addEventListener("click", (event) => {
      const line = event.target.closest(".mcp-line");
      if (line) onChoose(line.dataset.key);
    });
    this.pane.addEventListener("keydown", (event) => {
      const line = event.target.closest(".mcp-line");
      if (line && event.target === line && event.key === "Enter") { event.stopPropagation(); onChoose(line.dataset.key); this.pane.focus(); }
    });
  }

  async open(key) {
    this.key = key;
    const { ok, data } = await fetched(`${this.root.dataset.message}?key=${encodeURIComponent(key)}`);
    if (this.key !== key) return;
    if (!ok) {
      this.pane.replaceChildren(element("p", "mcp-empty", data?.note ?? "The message cannot be read now."));
      return;
    }
    this.draw(data);
  }

  close() {
    this.key = "";
    this.pane.replaceChildren(element("p", "mcp-empty", "Choose a message."));
  }

  draw({ row, blocks, related, request, links }) {
    const head = element("div", "mcp-detail-head");
    head.append(sign(row, "mcp-arrow"));
    if (row.method === "tools/call") head.append(marked(row.method, element("span", "mcp-dim")));
    head.append(title(row, element("strong", "mcp-text mcp-line-name")));
    head.append(element("span", "mcp-spring"));
    const shown = status(row);
    if (shown) head.append(shown);
    const texts = element("div", "mcp-texts");
    for (const { title, text } of blocks) {
      const [part, block] = [element("div", title === "Exception" ? "mcp-failure" : ""), element("pre", "mcp-pre")];
      block.tabIndex = 0;
      part.append(element("h2", "", title), marked(text, block));
      texts.append(part);
    }
    const parts = [head, this.buttons(row, request, links), texts, this.facts(row)];
    if (related.length > 0) {
      const list = element("ol", "mcp-lines-list");
      list.append(...related.map((other) => lineOf(other)));
      for (const line of list.children) line.tabIndex = 0;
      parts.push(element("h2", "", "Of the same request"), list);
    }
    this.pane.replaceChildren(...parts);
    this.pane.dataset.shown = row.key;
    this.pane.scrollTop = 0;
  }

  facts(row) {
    const list = element("dl", "mcp-facts");
    const facts = [[`${row.ms === null ? "Time" : "Response sent"} (${zone})`, `${day(row.at)} ${clock(row.at)}`],
      ["Request received", row.ms === null ? "" : clock(row.at - row.ms)], ["Kind", row.kind], ["Refusal", row.refusal], ["Id", row.id], ["Duration", row.ms === null ? "" : span(row.ms)],
      ["User", row.who], ["Client", row.client], ["Process", row.process], ["Size", `${row.size} characters`]];
    for (const [name, text] of facts) {
      if (!text) continue;
      const pair = element("div");
      const shown = { User: caller, Client: client }[name];
      const value = shown ? shown(row, element("dd")) : marked(text, element("dd"));
      pair.append(element("dt", "", name), value);
      list.append(pair);
    }
    return list;
  }

  buttons(row, request, links) {
    const box = element("p", "mcp-buttons");
    const button = (words, act) => {
      const made = element("button", "mcp-button", words);
      made.type = "button";
      made.addEventListener("click", () => act(made));
      box.append(made);
    };
    const link = (words, address) => {
      const made = element("a", "mcp-button", words);
      made.href = address;
      box.append(made);
    };
    if (request !== null && this.root.dataset.cancel) {
      const address = this.root.dataset.cancel.replace("SESSION", encodeURIComponent(row.session));
      box.append(cancelling("Cancel this call", address, request));
    }
    const each = this.broadcastOf(row.key);
    if (each) link("Show each message", `?${new URLSearchParams({ live: "1", q: each })}`);
    if (links.replay) link("Replay…", links.replay);
    button(this.isPinned(row.key) ? "Unpin" : "Pin", (made) => {
      made.textContent = this.onPin(row) ? "Unpin" : "Pin";
    });
    button("Copy link", async (made) => {
      await navigator.clipboard.writeText(this.address(row));
      made.textContent = "Copied";
    });
    if (links.session && links.session !== window.location.pathname && this.root.dataset.page) link("View session", links.session);
    if (links.call) link("View call", links.call);
    if (links.tool) link("View tool", links.tool);
    if (links.admin) link("View message", links.admin);
    return box;
  }

  address(row) {
    const address = new URL(window.location.pathname, window.location.href);
    if ("all" in this.root.dataset) address.searchParams.set("live", "1");
    address.searchParams.set("message", row.key);
    return address.href;
  }
}
