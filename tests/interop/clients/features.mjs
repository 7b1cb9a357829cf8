// Every feature with any TypeScript client that has the methods of `does`; a report of what was seen.

const LISTS = [
  ["tools", "tools/list", "tools", "name"],
  ["prompts", "prompts/list", "prompts", "name"],
  ["resources", "resources/list", "resources", "uri"],
  ["templates", "resources/templates/list", "resourceTemplates", "uriTemplate"],
];
export const SAMPLED = {
  role: "assistant",
  content: { type: "text", text: "words" },
  model: "m",
  stopReason: "endTurn",
};
export const ROOTS = { roots: [{ uri: "file:///home/ada" }] };

export const filled = (params) => {
  const fields = Object.keys(params.requestedSchema.properties);
  return { action: "accept", content: Object.fromEntries(fields.map((name) => [name, "Ada"])) };
};

const until = async (what) => {
  for (const end = Date.now() + 15_000; Date.now() < end; ) {
    if (await what()) return true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
};

const listed = async (does, method, member, key) => {
  const names = [];
  let pages = 0;
  let cursor;
  do {
    const page = await does.list(method, cursor ? { cursor } : {});
    names.push(...page[member].map((item) => item[key]));
    cursor = page.nextCursor;
    pages += 1;
  } while (cursor);
  return [names, pages];
};

export async function walk(does, heard) {
  const call = async (name, args = {}, options) => {
    const result = await does.call({ name, arguments: args }, options);
    const text = result.content.filter((block) => block.type === "text").map((block) => block.text).join("");
    return { text, structured: result.structuredContent ?? null };
  };
  const report = { pages: {} };
  for (const [name, method, member, key] of LISTS) {
    [report[name], report.pages[name]] = await listed(does, method, member, key);
  }
  report.structured = (await call("add", { a: 2, b: 40 })).structured;
  report.greeting = (await does.read({ uri: "demo://greeting/Ada" })).contents[0].text;
  const review = await does.prompt({ name: "code_review", arguments: { code: "x = 1", language: "python" } });
  report.review = review.messages.map((message) => message.content.text).join("");
  const ref = { type: "ref/prompt", name: "code_review" };
  report.completion = (await does.complete({ ref, argument: { name: "language", value: "py" } })).completion.values;
  await does.setLevel("info");
  report.progress = [];
  report.chat = (await call("chat", {}, { onprogress: (step) => report.progress.push(step) })).text;
  report.heard = await until(() => heard.logs.includes("said louder"));
  report.logs = [...heard.logs];
  report.asked = (await call("ask_everything")).text;
  const name = Math.random().toString(36).slice(2);
  const abort = new AbortController();
  const held = call("hold", { name }, { signal: abort.signal }).catch(() => undefined);
  await until(() => heard.logs.includes(`holding ${name}`));
  abort.abort("enough");
  await held;
  report.stopped = await until(async () => (await call("stopped", { name })).text === "yes");
  await does.subscribe("note://one");
  await call("touch", { uri: "note://one" });
  report.updated = await until(() => heard.updated.includes("note://one"));
  heard.changed.length = 0;
  await call("switch");
  report.changed = await until(() => heard.changed.includes("tools"));
  await call("switch");
  report.booked = await call("book_trip", { city: name });
  report.came_back = (await call("come_back")).text;
  report.process = (await call("process")).text;
  return report;
}
