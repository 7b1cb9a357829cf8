// Prints, as JSON, requests that swagger-client 3 (npm) builds for a table of parameters:
//   npm install swagger-client@3.37.3 && cp oracle.mjs . && node oracle.mjs > requests.json
import SwaggerClient from "swagger-client";

const VALUES = {
  primitive: ["blue", "", "a b&c=d", "é/ü?x#y", 100, 1.5, true, false],
  array: [["blue", "black", "brown"], ["one"], ["a,b", "c d", "e&f"], [1, 2, 3], [true, false]],
  object: [{ R: 100, G: 200, B: 150 }, { one: "a b" }, { a: "x,y", b: "p&q=r" }],
};
const SCHEMAS = { primitive: {}, array: { type: "array", items: {} }, object: { type: "object" } };
const CELLS = [
  ["path", ["simple", "label", "matrix"], [false, true], ["primitive", "array", "object"]],
  ["query", ["form"], [false, true], ["primitive", "array", "object"]],
  ["query", ["spaceDelimited", "pipeDelimited"], [false], ["array"]],
  ["query", ["deepObject"], [true], ["object"]],
  ["header", ["simple"], [false, true], ["primitive", "array", "object"]],
  ["cookie", ["form"], [false, true], ["primitive", "array", "object"]],
];

const cases = [];
for (const [place, styles, explodes, kinds] of CELLS)
  for (const style of styles)
    for (const explode of explodes)
      for (const kind of kinds)
        for (const value of VALUES[kind]) {
          const parameter = { name: "color", in: place, style, explode, required: true, schema: SCHEMAS[kind] };
          const path = place === "path" ? "/x/{color}" : "/x";
          const spec = {
            openapi: "3.0.3",
            info: { title: "t", version: "1" },
            servers: [{ url: "https://api.example.com" }],
            paths: { [path]: { get: { operationId: "x", parameters: [parameter], responses: {} } } },
          };
          const request = SwaggerClient.buildRequest({ spec, operationId: "x", parameters: { color: value } });
          const headers = Object.fromEntries(
            Object.entries(request.headers).map(([name, text]) => [name.toLowerCase(), text]),
          );
          cases.push({
            place, style, explode, kind, value, url: request.url,
            header: headers.color ?? "", cookie: headers.cookie ?? "",
          });
        }
process.stdout.write(`[\n${cases.map((each) => JSON.stringify(each)).join(",\n")}\n]\n`);
