// Walks the demo catalogue with any client that has the methods of `does`, and prints one JSON report.

const text = (content) => content.filter((block) => block.type === "text").map((block) => block.text).join("");

export async function walk(does, plan) {
  const report = { calls: {}, progress: [] };
  report.tools = (await does.listTools()).tools.map((tool) => tool.name);
  for (const [name, args] of Object.entries(plan)) {
    const onprogress = name === "count" ? (step) => report.progress.push(step) : undefined;
    const result = await does.callTool({ name, arguments: args }, onprogress);
    report.calls[name] = {
      text: text(result.content),
      structured: result.structuredContent ?? null,
      isError: Boolean(result.isError),
    };
  }
  report.prompts = (await does.listPrompts()).prompts.map((prompt) => prompt.name);
  report.resources = (await does.listResources()).resources.map((resource) => resource.uri);
  report.templates = (await does.listResourceTemplates()).resourceTemplates.map((item) => item.uriTemplate);
  report.greeting = (await does.readResource({ uri: "demo://greeting/Ada" })).contents[0].text;
  const review = await does.getPrompt({ name: "code_review", arguments: { code: "x = 1", language: "python" } });
  report.review = review.messages.map((message) => message.content.text).join("");
  const reference = { type: "ref/prompt", name: "code_review" };
  const argument = { name: "language", value: "py" };
  report.completion = (await does.complete({ ref: reference, argument })).completion.values;
  return report;
}
