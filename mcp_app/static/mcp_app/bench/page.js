// The test bench of one entry: reads the form, runs it through the client, shows what comes back.

import { clock, span } from "../times.js";
import { Client, Refused } from "./client.js";
import { NotJson } from "./controls.js";
import { shownResult, webLink } from "./contents.js";
import { Form } from "./form.js";
import { Questions } from "./questions.js";
import { Runs } from "./runs.js";
import { block, element, isObject, line, lines } from "./text.js";

const MOST_LINES = 500;
const MOST_MESSAGES = 200;
const LONGEST_MESSAGE = 100_000;
const LONGEST_ADDRESS = 6000;
const TICK = 100;
const PLACE = /^([^:\n]{1,300}): (expected [^\n]*)$/;
const INCIDENT = /\(incident ([0-9a-f]{8})\)/;
const INCIDENT_TRIES = 20;
const INCIDENT_PAUSE = 250;
// The progress of a call that waits rises by billionths, which nobody has to see.
const LARGEST_STEP = 0.001;
// The member of a result with the code of its refusal (protocol/refusals.py).
const REFUSAL = "django-mcp/refusal";
const WAITING = "Waiting for approval";
const LISTS = { tool: "tools", prompt: "prompts", resource: "resources", template: "resources" };
const METHODS = { tool: "tools/call", prompt: "prompts/get", resource: "resources/read", template: "resources/read" };

const isStep = (progress) => progress > 0 && progress <= LARGEST_STEP;

// The remedies of common mistakes, in the words of the hints below the fields.
const REMEDIES = { integer: "Enter a whole number.", number: "Enter a number.", "a value": "A value is needed." };
const remedy = (expected) => REMEDIES[/^expected (integer|number|a value), got /.exec(expected)?.[1]] ?? expected;

class Bench {
  constructor(page, data) {
    this.page = page;
    this.data = data;
    this.questions = new Questions(this.part("questions"));
    this.runs = new Runs({
      card: this.part("history"), list: this.part("runs"), comparisonCard: this.part("comparison"), compared: this.part("compared"),
      messageUrl: data.messageUrl, load: (run) => this.load(run), whole: (pk) => this.logged(pk),
    });
    this.buildForm();
    this.json = page.querySelector("#mcp-bench-json");
    this.user = page.querySelector("#mcp-bench-user");
    this.listen();
    this.begin();
  }

  part(name) { return this.page.querySelector(`[data-bench-${name}]`); }

  // The form and its JSON.

  buildForm() {
    const completes = this.data.kind === "prompt" || this.data.kind === "template";
    this.form = new Form(this.data.schema, {
      changed: () => this.changed(),
      complete: completes ? (name, value) => this.complete(name, value) : null,
    });
    this.part("fields").append(this.form.node);
  }

  get asJson() { return !this.part("raw").hidden; }

  changed() { this.part("snippets").hidden = true; }

  switchMode() {
    const toJson = !this.asJson;
    if (toJson) {
      try {
        this.json.value = JSON.stringify(this.form.get(), null, 2);
      } catch (error) {
        if (error instanceof NotJson) return;
        throw error;
      }
    } else {
      const value = this.fromJson();
      if (value === undefined) return;
      this.form.set(value);
    }
    this.part("raw").hidden = !toJson;
    this.part("fields").hidden = toJson;
    this.part("mode").textContent = toJson ? "Edit as a form" : "Edit as JSON";
    this.part("mode").setAttribute("aria-pressed", String(toJson));
    this.part("json-error").hidden = true;
  }

  // The typed object, or undefined after saying what is wrong with it.
  fromJson() {
    let said = "Must be an object: { … }";
    try {
      const value = JSON.parse(this.json.value.trim() || "{}");
      if (isObject(value)) return value;
    } catch (error) {
      said = `Not JSON: ${error.message}`;
    }
    this.complain(said);
    return undefined;
  }

  complain(text) {
    this.part("json-error").replaceChildren(line(text));
    this.part("json-error").hidden = false;
  }

  arguments() {
    this.part("json-error").hidden = true;
    if (this.asJson) return this.fromJson();
    try {
      return this.form.get();
    } catch (error) {
      if (error instanceof NotJson) return undefined;
      throw error;
    }
  }

  load(run) {
    this.fill(run.arguments);
    this.say(run.whole === false ? "The log does not store secrets. Replace each [redacted] by its value." : "");
    this.page.querySelector("#mcp-bench-arguments").scrollIntoView({ block: "nearest" });
  }

  fill(value) {
    this.json.value = JSON.stringify(value, null, 2);
    this.form.set(value);
    this.changed();
  }

  say(text) {
    this.part("trouble").textContent = text;
    this.part("trouble").hidden = text === "";
  }

  // What the method is given.
  params(args) {
    const { kind, key } = this.data;
    if (kind === "tool" || kind === "prompt") return { name: key, arguments: args };
    return { uri: kind === "template" ? expanded(key, args) : key };
  }

  // The session.

  async client() {
    const user = this.user?.value.trim() ?? "";
    if (this.current?.user === user) return this.current.client;
    this.current?.client.end();
    const client = new Client({
      endpoint: this.data.endpoint, info: this.data.client, credential: () => this.token(user),
      listener: {
        sent: (message) => this.wire("→", JSON.stringify(message)),
        received: (message, text) => this.wire("←", text),
        notified: (message) => this.notified(message),
        answer: (method, params, id) => this.questions.answer(method, params, id),
        lost: (text) => this.log("bench", text),
      },
    });
    this.current = { user, client };
    await client.connect();
    return client;
  }

  async token(user) {
    const given = await this.ask(this.data.tokenUrl, new URLSearchParams({ user }));
    // A client is only told that there is no such entry.
    if (given.why || this.refusal) this.say(given.why);
    this.refusal = given.why;
    return given;
  }

  async ask(url, body) {
    const token = this.part("csrf").querySelector("input").value;
    const options = body === undefined ? {} : { method: "POST", body, headers: { "X-CSRFToken": token } };
    const answer = await fetch(url, { ...options, redirect: "error", cache: "no-store" }).catch(() => {
      throw new Error("The server cannot be reached, or you are no longer logged in. Reload the page.");
    });
    const value = await answer.json().catch(() => ({ error: `The server responded with status ${answer.status}.` }));
    if (!answer.ok) throw new Error(value.error);
    return value;
  }

  logged(pk) { return this.ask(`${this.data.runUrl}?message=${encodeURIComponent(pk)}`); }

  async complete(name, value) {
    const { kind, key } = this.data;
    // Not another user's while something runs: that would end the session it runs in.
    const client = this.running ? this.current.client : await this.client();
    const ref = kind === "prompt" ? { type: "ref/prompt", name: key } : { type: "ref/resource", uri: key };
    const others = Object.entries(this.form.get()).filter(([other, text]) => other !== name && typeof text === "string");
    const context = { arguments: Object.fromEntries(others) };
    const result = await client.request("completion/complete", { ref, argument: { name, value }, context });
    return result.completion.values.filter((each) => typeof each === "string");
  }

  // One run.

  async run() {
    if (this.running) return;
    const args = this.arguments();
    if (args === undefined) return;
    const run = { at: new Date().toISOString(), arguments: args, principal: this.caller(), outcome: "" };
    this.running = { run, token: `run-${Date.now().toString(36)}`, started: performance.now() };
    this.clear();
    this.state("connecting", "plain");
    const ticking = window.setInterval(() => this.tick(), TICK);
    try {
      const client = await this.client();
      this.state("running", "info");
      this.running.started = performance.now();
      const params = { ...this.params(args), _meta: { progressToken: this.running.token } };
      const result = await client.request(METHODS[this.data.kind], params, { begun: (id) => this.begun(id) });
      this.done(result);
    } catch (error) {
      this.failed(error);
    } finally {
      window.clearInterval(ticking);
      run.milliseconds = performance.now() - this.running.started;
      this.part("time").textContent = `${span(run.milliseconds)} round trip`;
      this.part("run").disabled = false;
      this.part("stop").hidden = true;
      this.questions.withdraw();
      this.running = null;
      this.runs.add(run);
      if (this.before) this.runs.compare(this.before, run);
    }
  }

  // The name of the caller as the message log shows it.
  caller() {
    const { user } = this.data;
    const other = this.user?.value.trim() || user;
    return `${other === user ? user : `${user} as ${other}`} (test bench)`;
  }

  begun(id) {
    this.running.id = id;
    this.part("stop").hidden = false;
    this.part("stop").disabled = false;
  }

  tick() {
    if (this.running) this.part("time").textContent = span(performance.now() - this.running.started);
  }

  async stop() {
    if (this.running?.id === undefined) return;
    this.part("stop").disabled = true;
    this.state("cancelling", "warn");
    await this.current.client.cancel(this.running.id, "stopped in the test bench").catch((error) => this.log("bench", error.message));
  }

  clear() {
    for (const name of ["output", "log", "messages", "questions"]) this.part(name).replaceChildren();
    for (const name of ["log", "wire", "progress", "snippets"]) this.part(name).hidden = true;
    this.part("run").disabled = true;
    this.form.clear();
    this.say("");
    this.heard = -Infinity;
  }

  state(text, tone) {
    const badge = this.part("state");
    badge.textContent = text;
    badge.className = `mcp-badge mcp-badge-${tone}`;
  }

  done(result) {
    const { run } = this.running;
    const failed = this.data.kind === "tool" && result?.isError === true;
    // The server refuses some calls by a result, so that a model can read it. The tool has not run.
    const refused = failed && typeof result._meta?.[REFUSAL] === "string";
    Object.assign(run, { outcome: refused ? "refused" : failed ? "tool_error" : "ok", answer: result });
    this.state(refused ? "refused" : failed ? "failed" : "succeeded", refused ? "warn" : failed ? "bad" : "good");
    if (failed) {
      const text = refused ? "The call was refused. The tool did not run." : "The tool returned an error.";
      this.part("output").append(element("p", { class: `mcp-note mcp-note-${refused ? "warn" : "bad"}` }, text));
      for (const content of Array.isArray(result.content) ? result.content : []) this.blame(content?.text);
      this.explain(result.content?.[0]?.text);
    }
    const client = this.current.client;
    this.part("output").append(shownResult(this.data.kind, result, (uri) => client.request("resources/read", { uri })));
  }

  failed(error) {
    const { run } = this.running;
    const cancelled = error instanceof Refused && error.code === -32800;
    const refused = typeof error.data?.refusal === "string";
    const answer = error instanceof Refused ? { code: error.code, message: error.message, data: error.data } : { message: error.message };
    Object.assign(run, { outcome: cancelled ? "cancelled" : refused ? "refused" : "error", answer });
    this.state(cancelled ? "cancelled" : refused ? "refused" : "failed", cancelled || refused ? "warn" : "bad");
    const code = error instanceof Refused && error.code !== undefined ? `${error.code} ` : "";
    this.part("output").append(element("p", { class: `mcp-note mcp-note-${cancelled ? "warn" : "bad"}` }, code, line(error.message)));
    // A step in the browser comes first (-32042): its address is for the person to open.
    for (const step of Array.isArray(error.data?.elicitations) ? error.data.elicitations : []) {
      this.part("output").append(element("p", {}, line(step?.message ?? ""), " ", webLink(String(step?.url ?? ""))));
    }
    if (error.data !== undefined) this.part("output").append(block(JSON.stringify(error.data, null, 2)));
    this.blame(error.message);
    this.explain(error.message);
  }

  // Shows the exception behind an incident number. The message log has it a moment after the answer.
  async explain(text) {
    const [, number] = INCIDENT.exec(typeof text === "string" ? text : "") ?? [];
    if (number === undefined || !this.data.incidentUrl) return;
    const place = element("div", { "data-failure": number });
    this.part("output").append(place);
    for (let tries = 0; tries < INCIDENT_TRIES && place.isConnected; tries += 1) {
      const found = await this.ask(this.data.incidentUrl.replace("00000000", number)).catch(() => ({}));
      if (found.text) {
        place.append(element("p", { class: "mcp-dim" }, "Exception"), block(found.text));
        return;
      }
      await new Promise((resolve) => { window.setTimeout(resolve, INCIDENT_PAUSE); });
    }
    place.append(element("p", { class: "mcp-note mcp-note-warn" }, `Incident ${number}: the message log has no details. Search the server log for this number to find the traceback.`));
  }

  // Puts what the server found wrong beside the field it names.
  blame(text) {
    const [, path, expected] = PLACE.exec(typeof text === "string" ? text : "") ?? [];
    if (path !== undefined) {
      if (this.asJson) this.complain(text);
      else if (path !== "(arguments)") this.form.complain(path, remedy(expected));
      return;
    }
    const missing = /^Missing required prompt arguments: (.*)\.$/.exec(text ?? "");
    for (const name of missing?.[1].split(", ") ?? []) this.form.complain(name, "A value is needed.");
    const wrong = /^Prompt argument '([^']+)' (must .*)$/.exec(text ?? "");
    if (wrong) this.form.complain(wrong[1], wrong[2]);
  }

  // What comes while it runs.

  notified({ method, params }) {
    if (method === "notifications/progress" && params?.progressToken === this.running?.token) this.progress(params);
    else if (method === "notifications/message") this.log(params?.level, words(params?.data), params?.logger);
    else if (method === "notifications/elicitation/complete") this.log("bench", "The step in the browser is complete.");
    else if (method === "notifications/cancelled") this.questions.withdraw(params?.requestId);
    else if (method === `notifications/${LISTS[this.data.kind]}/list_changed`) this.say("The catalogue has changed. Reload the page to see the current entry.");
  }

  progress({ progress, total, message }) {
    if (typeof progress !== "number" || progress < this.heard) return;
    this.heard = progress;
    const bar = this.part("progress").querySelector("progress");
    if (typeof total === "number" && total > 0) {
      bar.max = total;
      bar.value = Math.min(Math.max(progress, 0), total);
    } else {
      bar.removeAttribute("value");
    }
    const said = typeof message === "string" && message ? message : "";
    const numbers = typeof total === "number" ? `${isStep(progress) ? 0 : progress} of ${total}` : isStep(progress) ? "" : String(progress);
    this.part("progress-text").replaceChildren(line(said.includes(numbers) ? said : `${numbers} ${said}`.trim()));
    this.part("progress").hidden = false;
    if (this.part("stop").disabled) return;
    if (isStep(progress) && said.startsWith(WAITING)) this.state("waiting for approval", "warn");
    else this.state("running", "info");
  }

  log(level, text, logger) {
    const list = this.part("log");
    list.hidden = false;
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    list.append(element("li", {}, element("b", {}, line(level ?? "info")), " ", logger ? element("span", { class: "mcp-dim" }, line(logger), " ") : null, element("bdi", {}, lines(text))));
    while (list.children.length > MOST_LINES) list.firstElementChild.remove();
    if (atEnd) list.scrollTop = list.scrollHeight;
  }

  wire(arrow, text) {
    const place = this.part("messages");
    this.part("wire").hidden = false;
    const cut = text.length > LONGEST_MESSAGE ? `${text.slice(0, LONGEST_MESSAGE)}…` : text;
    const at = clock(Date.now());
    place.append(element("div", { class: "mcp-bench-message" }, element("span", { class: "mcp-arrow", title: arrow === "→" ? "client → server" : "server → client" }, arrow), element("span", { class: "mcp-time mcp-dim" }, at), block(cut)));
    while (place.children.length > MOST_MESSAGES) place.firstElementChild.remove();
  }

  // What can be done with the arguments elsewhere.

  preset() {
    const args = this.arguments();
    if (args === undefined) return;
    const { url, tool, fixed } = this.data.preset;
    const query = new URLSearchParams({ preset_of: tool, fixed_arguments: JSON.stringify({ ...fixed, ...args }) });
    if (query.toString().length > LONGEST_ADDRESS) this.say("These arguments are too long for a link. Add a preset and paste them as JSON.");
    else window.location.assign(`${url}?${query}`);
  }

  async copy() {
    const args = this.arguments();
    if (args === undefined) return;
    const place = this.part("snippets");
    try {
      const body = JSON.stringify({ method: METHODS[this.data.kind], params: this.params(args) });
      const { snippets } = await this.ask(this.data.snippetsUrl, body);
      place.replaceChildren(...snippets.map(({ title, text }) => this.snippet(title, text)));
      place.hidden = false;
    } catch (error) {
      this.say(error.message);
    }
  }

  snippet(title, text) {
    const box = block(text);
    const button = element("button", { class: "mcp-button", type: "button" }, "Copy");
    button.addEventListener("click", () => {
      navigator.clipboard?.writeText(text).then(() => { button.textContent = "Copied"; }, () => select(box)) ?? select(box);
    });
    return element("div", {}, element("p", { class: "mcp-dim" }, title), element("div", { class: "mcp-copy" }, box, button));
  }

  // The page itself.

  listen() {
    const form = this.part("form");
    form.addEventListener("submit", (event) => { event.preventDefault(); this.run(); });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.run(); }
    });
    this.json.addEventListener("input", () => this.changed());
    this.part("mode").hidden = this.data.kind === "resource"; // It never has arguments.
    this.part("mode").addEventListener("click", () => this.switchMode());
    this.part("stop").addEventListener("click", () => this.stop());
    this.part("copy").addEventListener("click", () => this.copy());
    this.part("preset").hidden = this.data.preset === null;
    this.part("preset").addEventListener("click", () => this.preset());
    window.addEventListener("pagehide", () => { this.current?.client.end(); this.current = undefined; });
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.current?.client.hush();
      else this.current?.client.listen();
    });
  }

  begin() {
    const { first, second, trouble, runs } = this.data;
    for (const run of runs) if (run.message !== first?.message && run.message !== second?.message) this.runs.add(run, { last: true });
    if (second) this.runs.add(second);
    if (first) {
      this.runs.add(first);
      this.load(first);
      if (second) this.runs.compare(first, second);
      else this.before = first;
    }
    if (this.data.arguments) this.fill(this.data.arguments);
    if (trouble) this.say(trouble);
  }
}

function words(data) { return typeof data === "string" ? data : JSON.stringify(data); }

function select(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  window.getSelection().removeAllRanges();
  window.getSelection().addRange(range);
}

// RFC 6570 as far as the server serves it: {name} takes one segment, {+path} also slashes.
function expanded(template, values) {
  return template.replace(/\{(\+?)(\w+)\}/g, (_, plus, name) => {
    const value = Object.hasOwn(values, name) ? String(values[name]) : "";
    return plus ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
  });
}

const page = document.querySelector("[data-bench]");
if (page) new Bench(page, JSON.parse(document.getElementById("mcp-bench").textContent));
