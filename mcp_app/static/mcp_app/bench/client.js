// An MCP client for the browser: Streamable HTTP as the specification words it (2025-11-25), one session.
//
// It resumes a stream that broke with Last-Event-ID, answers the server's questions through `answer`, and cancels
// by notification: a connection that is given up would cancel nothing.

import { events } from "./event_stream.js";

const PROTOCOL = "2025-11-25";
const RENEW_BEFORE = 60;
const RESUMES = 8;
const SLOWEST = 10000;

// The server said no, in its own words; `code` is JSON-RPC's.
export class Refused extends Error {
  constructor({ code, message, data }, status = 200) {
    super(String(message ?? "The server gave no reason."));
    Object.assign(this, { code, data, status });
  }
}

export class Client {
  // credential(): resolves to { token, ends }. listener: { sent, received, notified, answer, lost }.
  constructor({ endpoint, info, credential, listener }) {
    Object.assign(this, { endpoint, info, credential, listener });
    this.nextId = 1;
    this.session = null;
    this.waiting = new Map();
  }

  get open() { return this.session !== null; }

  // Opens the session if there is none; calls at once share the opening.
  connect() {
    this.connecting ??= this.initialize().catch((error) => { this.connecting = null; throw error; });
    return this.connecting;
  }

  async initialize() {
    this.session = null;
    const capabilities = { elicitation: { form: {}, url: {} }, sampling: {} };
    const params = { protocolVersion: PROTOCOL, capabilities, clientInfo: this.info };
    const result = await this.exchange("initialize", params);
    this.version = result.protocolVersion;
    await this.notify("notifications/initialized");
    if (!document.hidden) this.listen();
    return result;
  }

  // A request in the session; a session that ended meanwhile is opened anew, once.
  async request(method, params, { begun } = {}) {
    await this.connect();
    try {
      return await this.exchange(method, params, begun);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 404 || method === "initialize") throw error;
      this.forget();
      this.listener.lost?.("The session had ended: a new one was opened.");
      await this.connect();
      return this.exchange(method, params, begun);
    }
  }

  exchange(method, params, begun) {
    const id = this.nextId++;
    begun?.(id);
    const answered = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    this.deliver({ jsonrpc: "2.0", id, method, params }, id).catch((error) => this.fail(id, error));
    return answered;
  }

  notify(method, params) {
    return this.post({ jsonrpc: "2.0", method, ...(params ? { params } : {}) });
  }

  cancel(id, reason) {
    return this.notify("notifications/cancelled", { requestId: id, reason });
  }

  forget() {
    this.session = null;
    this.connecting = null;
    this.hush();
    this.heard = undefined;
  }

  // Ends the session, also while the page is being left.
  end() {
    const { session, access } = this;
    this.forget();
    if (!session || !access) return;
    fetch(this.endpoint, { method: "DELETE", keepalive: true, headers: this.headers(session, access) }).catch(() => {});
  }

  headers(session, access, more = {}) {
    return {
      Authorization: `Bearer ${access.token}`,
      Accept: "application/json, text/event-stream",
      ...(session ? { "Mcp-Session-Id": session, "MCP-Protocol-Version": this.version ?? PROTOCOL } : {}),
      ...more,
    };
  }

  async accessNow(anew = false) {
    if (anew || !this.access || this.access.ends - Date.now() / 1000 < RENEW_BEFORE) {
      this.access = await this.credential();
    }
    return this.access;
  }

  // One HTTP request with a valid token; a token that is refused is replaced once.
  async send(method, { body, headers = {}, signal } = {}) {
    for (const anew of [false, true]) {
      const access = await this.accessNow(anew);
      const answer = await fetch(this.endpoint, {
        method, body, signal, headers: this.headers(this.session, access, headers), redirect: "error", cache: "no-store",
      });
      if (answer.status !== 401 || anew) return answer;
    }
    return null;
  }

  async post(message) {
    this.listener.sent?.(message);
    const body = JSON.stringify(message);
    const answer = await this.send("POST", { body, headers: { "Content-Type": "application/json" } });
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }

  async deliver(message, id) {
    const answer = await this.post(message);
    if (message.method === "initialize") this.session = answer.headers.get("Mcp-Session-Id");
    if (answer.headers.get("Content-Type")?.startsWith("application/json")) {
      this.take(await answer.text());
      return;
    }
    await this.follow(answer, id);
  }

  // Reads a stream to its end; while the answer is missing, goes on where it broke off.
  async follow(answer, id) {
    let position = { pause: 1000 };
    for (let attempt = 0; ; attempt += 1) {
      const before = position.last;
      try {
        await this.read(answer, position);
      } catch (error) {
        if (!(error instanceof TypeError) && error.name !== "NetworkError") throw error;
      }
      if (!this.waiting.has(id)) return;
      if (position.last === undefined) throw new Error("The connection was lost before the server named a place to resume from.");
      if (position.last !== before) attempt = 0;
      answer = await this.resumed(position, attempt);
    }
  }

  async resumed(position, attempt) {
    for (let tries = attempt; tries < RESUMES; tries += 1) {
      await pause(Math.min(position.pause * 2 ** tries, SLOWEST));
      try {
        const answer = await this.send("GET", { headers: { Accept: "text/event-stream", "Last-Event-ID": position.last } });
        if (answer.ok) return answer;
        if (answer.status < 500 && answer.status !== 429) throw await refusal(answer);
      } catch (error) {
        if (error instanceof Refused) throw error;
      }
    }
    throw new Error("The stream broke and could not be resumed.");
  }

  async read(answer, position) {
    for await (const event of events(answer.body)) {
      if (event.id) position.last = event.id;
      if (event.retry !== undefined) position.pause = event.retry;
      if (event.data) this.take(event.data);
    }
  }

  // What concerns no request of ours comes on this stream. It is open only while people look at the page (`hush`):
  // browsers allow few connections to one site, over all tabs.
  async listen() {
    if (this.listening || !this.session) return;
    const control = new AbortController();
    const position = this.heard ??= { pause: 1000 };
    this.listening = control;
    try {
      while (!control.signal.aborted && this.session) {
        const resume = position.last ? { "Last-Event-ID": position.last } : {};
        const answer = await this.send("GET", { headers: { Accept: "text/event-stream", ...resume }, signal: control.signal });
        if (!answer.ok) return;
        await this.read(answer, position);
        await pause(position.pause);
      }
    } catch {
      // Broken or given up: what the stream tells is a comfort, and the next request opens it again.
    } finally {
      if (this.listening === control) this.listening = null;
    }
  }

  hush() {
    this.listening?.abort();
    this.listening = null;
  }

  take(text) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    this.listener.received?.(message, text);
    if (message.method !== undefined && message.id !== undefined) this.asked(message);
    else if (message.method !== undefined) this.listener.notified?.(message);
    else if (message.error) this.fail(message.id, new Refused(message.error));
    else this.settle(message.id, "resolve", message.result);
  }

  // A request of the server's; whatever goes wrong with it is said to the server, which waits for it.
  async asked({ id, method, params }) {
    let answer;
    try {
      if (method === "ping") answer = { result: {} };
      else answer = { result: await this.listener.answer(method, params ?? {}, id) };
    } catch (error) {
      answer = { error: { code: error.code ?? -32603, message: error.message } };
    }
    await this.post({ jsonrpc: "2.0", id, ...answer }).catch((error) => this.listener.lost?.(error.message));
  }

  fail(id, error) { this.settle(id, "reject", error); }

  settle(id, how, value) {
    const waiting = this.waiting.get(id);
    this.waiting.delete(id);
    waiting?.[how](value);
  }
}

function pause(time) {
  return new Promise((resolve) => { window.setTimeout(resolve, time); });
}

async function refusal(answer) {
  let error;
  try {
    ({ error } = await answer.json());
  } catch {
    error = null;
  }
  return new Refused(error ?? { message: `The server answered ${answer.status}.` }, answer.status);
}
