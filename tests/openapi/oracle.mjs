// Prints, as JSON, the requests that swagger-client 3 (npm) sends over a socket for a table of operations:
//   npm install swagger-client@3.37.3 && cp oracle.mjs . && node oracle.mjs > requests.json
import net from "node:net";
import SwaggerClient from "swagger-client";

const VALUES = {
  primitive: ["blue", "", "a b&c=d", "é/ü?x#y", "it's (ok)!*", "100%", "日本", 100, 1.5, true, false],
  array: [["blue", "black", "brown"], ["one"], ["a,b", "c d", "e&f"], [1, 2, 3], [true, false], ["é", ""], []],
  object: [{ R: 100, G: 200, B: 150 }, { one: "a b" }, { a: "x,y", b: "p&q=r" }, { "é": "ü", empty: "" }, {}],
};
const SCHEMAS = {
  primitive: {},
  array: { type: "array", items: {} },
  object: { type: "object" },
};
const CELLS = [
  ["path", ["simple", "label", "matrix"], [false, true], ["primitive", "array", "object"]],
  ["query", ["form"], [false, true], ["primitive", "array", "object"]],
  ["query", ["spaceDelimited", "pipeDelimited"], [false, true], ["array"]],
  ["query", ["deepObject"], [true], ["object"]],
  ["header", ["simple"], [false, true], ["primitive", "array", "object"]],
  ["cookie", ["form"], [false, true], ["primitive", "array", "object"]],
];
const RESERVED = ["a/b?c:d@e", "a,b;c", "[x]!$'()*", "é ü"];
const JSON_VALUES = [
  { a: "é", b: [1, 2.5, null], c: { d: true } }, {}, [], [1, "two", { three: 3 }], "text", "", 0, false,
  { "": "", "\u2028": "\u0000\"\\", "😀": "\r\n" },
];
const FORM_VALUES = [
  { text: "a b&c=d", number: 1.5, flag: false, list: ["x", "y,z"], object: { a: 1, b: ["é"] } },
  { text: "é/ü?x#y%", list: ["one"] }, { list: ["", "b"] }, { text: "+" },
];
const FORM_SCHEMA = {
  type: "object",
  properties: {
    text: { type: "string" }, number: { type: "number" }, flag: { type: "boolean" },
    list: { type: "array", items: { type: "string" } }, object: { type: "object" },
  },
};
const ENCODINGS = [
  {},
  { list: { style: "form", explode: true } },
  { list: { style: "form", explode: false } },
  { list: { style: "pipeDelimited", explode: false } },
  { list: { style: "spaceDelimited", explode: false } },
  { list: { style: "form", explode: true }, object: { style: "deepObject", explode: true } },
  { list: { style: "form", explode: true }, object: { style: "form", explode: true } },
];
const TEXTS = ["héllo\nworld", "", "a=1&b=2", "\u0000😀\r\n"];

let received = [];
const server = net.createServer((socket) => {
  let data = Buffer.alloc(0);
  socket.on("data", (chunk) => {
    data = Buffer.concat([data, chunk]);
    const end = data.indexOf("\r\n\r\n");
    if (end < 0) return;
    const [line, ...lines] = data.subarray(0, end).toString("latin1").split("\r\n");
    const headers = lines.map((each) => [each.split(":", 1)[0].toLowerCase(), each.slice(each.indexOf(":") + 2)]);
    const size = Number(headers.find(([name]) => name === "content-length")?.[1] ?? 0);
    if (data.length < end + 4 + size) return;
    const body = data.subarray(end + 4, end + 4 + size);
    data = data.subarray(end + 4 + size);
    received.push({ line, headers, body: body.toString("base64") });
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}");
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const origin = `http://127.0.0.1:${server.address().port}`;
const OWN = new Set(["host", "connection", "accept-language", "sec-fetch-mode", "user-agent", "accept-encoding"]);

const cases = [];

// ``path`` and ``operation`` are those of the document. ``values`` are parameters; ``body`` is sent as ``type``.
async function add(facts, method, path, operation, values, type, body) {
  const spec = {
    openapi: "3.0.3",
    info: { title: "t", version: "1" },
    servers: [{ url: origin }],
    paths: { [path]: { [method]: { operationId: "x", responses: {}, ...operation } } },
  };
  received = [];
  const given = { spec, operationId: "x", parameters: values };
  if (type) Object.assign(given, { requestContentType: type, requestBody: body });
  await SwaggerClient.execute(given);
  const [{ line, headers, body: sent }] = received;
  const kept = headers.filter(([name]) => !OWN.has(name));
  const shown = type && body instanceof Object && [...Object.values(body)].some((each) => each instanceof File);
  cases.push({
    ...facts, method, path, operation, values,
    ...(type ? { body: shown ? facts.body : body } : {}),
    sent: { line: line.replace(" HTTP/1.1", ""), headers: kept, body: sent },
  });
}

function parameter(place, style, explode, kind, more = {}) {
  const name = place === "header" ? "X-Color" : "color";
  return { name, in: place, style, explode, required: true, schema: SCHEMAS[kind], ...more };
}

for (const [place, styles, explodes, kinds] of CELLS)
  for (const style of styles)
    for (const explode of explodes)
      for (const kind of kinds)
        for (const value of VALUES[kind]) {
          const text = JSON.stringify(value);
          // No header can hold these as they are, and a path needs text.
          if (place === "header" && /[^\x20-\x7e]/.test(text)) continue;
          if (place === "path" && ["", "[]", "{}", '""'].includes(text)) continue;
          const one = parameter(place, style, explode, kind);
          const path = place === "path" ? "/x/{color}/y" : "/x";
          const facts = { place, style, explode, kind, value };
          await add(facts, "get", path, { parameters: [one] }, { [one.name]: value });
        }
for (const value of RESERVED) {
  const one = parameter("query", "form", true, "primitive", { allowReserved: true });
  await add({ place: "query", value, kind: "reserved" }, "get", "/x", { parameters: [one] }, { color: value });
}
for (const [place, path] of [["path", "/x/{color}"], ["query", "/x"], ["header", "/x"]]) {
  const name = place === "header" ? "X-Color" : "color";
  for (const value of [{ a: [1, "b c"] }, ["x,y"], "text", 1.5]) {
    const one = { name, in: place, required: true, content: { "application/json": { schema: {} } } };
    await add({ place, value, kind: "content" }, "get", path, { parameters: [one] }, { [name]: value });
  }
}
for (const method of ["get", "post", "put", "patch", "delete", "head", "options"]) {
  const parameters = [
    parameter("path", "simple", false, "primitive"),
    { ...parameter("query", "form", true, "array"), name: "tag" },
    { ...parameter("query", "deepObject", true, "object"), name: "filter" },
    parameter("header", "simple", false, "array"),
  ];
  const values = { color: "a b", tag: ["x", "y z"], filter: { "from.to": "1&2" }, "X-Color": ["r", "g"] };
  await add({ place: "all", kind: "methods" }, method, "/v1/x/{color}/y", { parameters }, values);
}
for (const [number, value] of JSON_VALUES.entries())
  for (const type of ["application/json", "application/vnd.api+json", "application/merge-patch+json"]) {
    if (number && type !== "application/json") continue;
    const operation = { requestBody: { required: true, content: { [type]: { schema: {} } } } };
    await add({ place: "body", kind: "json" }, "post", "/x", operation, {}, type, value);
  }
for (const value of FORM_VALUES)
  for (const encoding of ENCODINGS) {
    const type = "application/x-www-form-urlencoded";
    const media = { schema: FORM_SCHEMA, ...(Object.keys(encoding).length ? { encoding } : {}) };
    const operation = { requestBody: { required: true, content: { [type]: media } } };
    await add({ place: "body", kind: "form" }, "post", "/x", operation, {}, type, value);
  }
for (const value of FORM_VALUES) {
  const media = { schema: FORM_SCHEMA, encoding: { object: { contentType: "application/json" } } };
  const operation = { requestBody: { required: true, content: { "multipart/form-data": media } } };
  await add({ place: "body", kind: "multipart" }, "post", "/x", operation, {}, "multipart/form-data", value);
}
for (const data of ["", "bytes \u0000\u00ff", "--boundary\r\n"]) {
  const schema = { type: "object", properties: { note: { type: "string" }, file: { type: "string", format: "binary" } } };
  const operation = { requestBody: { required: true, content: { "multipart/form-data": { schema } } } };
  const bytes = Buffer.from(data, "latin1");
  const body = { note: "é\"\r\n", file: new File([bytes], "file") };
  const facts = { place: "body", kind: "file", body: { note: body.note, file: bytes.toString("base64") } };
  await add(facts, "post", "/x", operation, {}, "multipart/form-data", body);
}
for (const type of ["text/plain", "text/csv", "application/xml"])
  for (const value of TEXTS) {
    const operation = { requestBody: { required: true, content: { [type]: { schema: { type: "string" } } } } };
    await add({ place: "body", kind: "text" }, "put", "/x", operation, {}, type, value);
  }
process.stdout.write(`[\n${cases.map((each) => JSON.stringify(each)).join(",\n")}\n]\n`);
process.exit(0);
