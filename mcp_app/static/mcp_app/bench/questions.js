// What a running call asks the person: a form, a visit to an address, or a model's words, which a person gives here.

import { contentBlock, webLink } from "./contents.js";
import { Form } from "./form.js";
import { NotJson } from "./controls.js";
import { element, isObject, lines } from "./text.js";

const UNKNOWN = -32601;
const REFUSED = -1;

// What the server would refuse: an answer that does not fit ends the call, so people are told before it is sent.
function faults(schema, content) {
  const found = [];
  for (const name of Array.isArray(schema?.required) ? schema.required : []) {
    if (!Object.hasOwn(content, name)) found.push([name, "A value is needed."]);
  }
  for (const [name, value] of Object.entries(content)) {
    const member = schema?.properties?.[name];
    const size = typeof value === "number" ? value : value?.length;
    const [least, most, unit] = typeof value === "number"
      ? [member?.minimum, member?.maximum, ""]
      : typeof value === "string" ? [member?.minLength, member?.maxLength, " characters"] : [member?.minItems, member?.maxItems, " choices"];
    if (/^(?:number|integer)$/.test(member?.type) && typeof value !== "number") found.push([name, "This must be a number."]);
    else if (member?.type === "integer" && !Number.isInteger(value)) found.push([name, "This must be a whole number."]);
    else if (size < least) found.push([name, `At least ${least}${unit}.`]);
    else if (size > most) found.push([name, `At most ${most}${unit}.`]);
  }
  return found;
}

export class Questions {
  constructor(place) {
    this.place = place;
    this.open = new Map();
  }

  // Resolves to the result of one request of the server's.
  answer(method, params, id) {
    if (method === "elicitation/create") return params.mode === "url" ? this.visit(params, id) : this.fill(params, id);
    if (method === "sampling/createMessage") return this.speak(params, id);
    return Promise.reject(Object.assign(new Error(`The test bench does not know ${method}.`), { code: UNKNOWN }));
  }

  // The server no longer waits: for one answer, or for all.
  withdraw(id) {
    for (const [key, close] of this.open) if (id === undefined || key === id) close();
  }

  panel(id, heading, message, inside, buttons) {
    return new Promise((resolve, reject) => {
      const finish = (settle, value) => { this.open.delete(id); node.remove(); settle(value); };
      const node = element("section", { class: "mcp-bench-question", role: "group", "aria-label": heading },
        element("p", { class: "mcp-bench-caption" }, element("span", { class: "mcp-badge mcp-badge-warn" }, heading)),
        element("p", { class: "mcp-bench-help" }, lines(message)), inside,
        element("p", { class: "mcp-buttons" }, ...buttons.map(({ label, tone, act }) => element("button", {
          class: `mcp-button ${tone ?? ""}`, type: "button", onclick: () => act((value) => finish(resolve, value), (error) => finish(reject, error)),
        }, label))));
      this.open.set(id, () => finish(reject, Object.assign(new Error("The question was withdrawn."), { code: REFUSED })));
      this.place.append(node);
      node.querySelector("input, textarea, select, a, button")?.focus({ preventScroll: true });
      node.scrollIntoView({ block: "nearest" });
    });
  }

  refusals() {
    return [
      { label: "Decline", act: (done) => done({ action: "decline" }) },
      { label: "Cancel", act: (done) => done({ action: "cancel" }) },
    ];
  }

  fill({ message, requestedSchema }, id) {
    const form = new Form(requestedSchema);
    const accept = (done) => {
      try {
        const content = form.get();
        const wrong = faults(requestedSchema, content);
        for (const [name, text] of wrong) form.complain(name, text);
        if (wrong.length === 0) done({ action: "accept", content });
      } catch (error) {
        if (!(error instanceof NotJson)) throw error;
      }
    };
    return this.panel(id, "The tool asks", String(message ?? ""), form.node, [{ label: "Accept", tone: "mcp-primary", act: accept }, ...this.refusals()]);
  }

  visit({ message, url }, id) {
    const inside = element("div", {}, element("p", { class: "mcp-dim" }, "It asks you to open this address. Look at it well before you do:"), element("p", {}, webLink(String(url ?? ""))));
    return this.panel(id, "The tool asks for a visit", String(message ?? ""), inside, [
      { label: "I did", tone: "mcp-primary", act: (done) => done({ action: "accept" }) }, ...this.refusals(),
    ]);
  }

  speak({ messages, systemPrompt, maxTokens }, id) {
    const said = (Array.isArray(messages) ? messages : []).filter(isObject).map(({ role, content }) => element("section", { class: "mcp-bench-turn" },
      element("span", { class: "mcp-badge" }, role === "assistant" ? "assistant" : "user"), ...(Array.isArray(content) ? content : [content]).map((each) => contentBlock(each))));
    const words = element("textarea", { class: "mcp-input", rows: "4", "aria-label": "Response of the model" });
    const inside = element("div", {},
      typeof systemPrompt === "string" ? element("p", { class: "mcp-dim" }, lines(`System prompt: ${systemPrompt}`)) : null, ...said,
      element("p", { class: "mcp-dim" }, `Respond in place of the model${Number.isInteger(maxTokens) ? `, at most ${maxTokens} tokens` : ""}:`), words);
    const send = (done) => done({ role: "assistant", content: { type: "text", text: words.value }, model: "a user", stopReason: "endTurn" });
    return this.panel(id, "The tool asks the client's model", "", inside, [
      { label: "Send", tone: "mcp-primary", act: send },
      { label: "Refuse", act: (_, failed) => failed(Object.assign(new Error("The user refused."), { code: REFUSED })) },
    ]);
  }
}
