// What a JSON Schema (2020-12) asks for, as far as a form can show it; the rest is left to JSON and to the server.

import { isObject } from "./text.js";

const DEEPEST_REFERENCE = 16;
const BY_KEYWORD = [
  ["object", ["properties", "additionalProperties", "required"]],
  ["array", ["items", "prefixItems", "minItems"]],
  ["string", ["minLength", "maxLength", "pattern", "format"]],
  ["number", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]],
];

// The schema with local references followed and `allOf` merged; `true` and what cannot be read is {}.
export function resolved(root, schema, depth = 0) {
  let current = isObject(schema) ? schema : {};
  for (let step = 0; typeof current.$ref === "string" && step < DEEPEST_REFERENCE; step += 1) {
    const { $ref, ...beside } = current;
    const target = pointed(root, $ref);
    if (!isObject(target)) return beside;
    current = { ...target, ...beside };
  }
  if (Array.isArray(current.allOf) && depth < DEEPEST_REFERENCE) {
    const { allOf, ...alone } = current;
    current = allOf.reduce((all, part) => merged(all, resolved(root, part, depth + 1)), alone);
  }
  return current;
}

function pointed(root, reference) {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) return undefined;
  let place = root;
  for (const part of reference.slice(2).split("/")) {
    let name = part;
    try {
      name = decodeURIComponent(part);
    } catch {
      // Not percent-encoded: taken as it is.
    }
    name = name.replaceAll("~1", "/").replaceAll("~0", "~");
    if (place === null || typeof place !== "object" || !Object.hasOwn(place, name)) return undefined;
    place = place[name];
  }
  return place;
}

function merged(one, other) {
  const both = { ...one, ...other };
  if (isObject(one.properties) && isObject(other.properties)) both.properties = { ...one.properties, ...other.properties };
  if (Array.isArray(one.required) && Array.isArray(other.required)) both.required = [...one.required, ...other.required];
  return both;
}

// The values to choose from, each { value, title, description }; null when the schema is no choice.
export function choices(root, schema) {
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return schema.enum.map((value, place) => ({ value, title: names[place] }));
  }
  const branches = schema.oneOf ?? schema.anyOf;
  if (!Array.isArray(branches) || branches.length === 0) return null;
  const all = branches.map((branch) => resolved(root, branch));
  if (!all.every((branch) => Object.hasOwn(branch, "const"))) return null;
  return all.map(({ const: value, title, description }) => ({ value, title, description }));
}

// The alternatives of a schema; null when it has only one. `null` among them is the flag `nullable`.
export function alternatives(root, schema) {
  const { oneOf, anyOf, ...beside } = schema;
  let branches = Array.isArray(oneOf) ? oneOf : anyOf;
  if (Array.isArray(branches)) {
    // Keywords beside the alternatives hold for each of them; a title or default is the whole's.
    const { title: _, description: __, default: ___, ...shared } = beside;
    branches = branches.map((branch) => merged(shared, resolved(root, branch)));
  } else if (Array.isArray(schema.type)) {
    branches = schema.type.map((type) => ({ ...schema, type, title: type }));
  } else {
    return null;
  }
  const real = branches.filter((branch) => branch.type !== "null");
  return { branches: real, nullable: real.length < branches.length };
}

export function typeOf(schema) {
  if (typeof schema.type === "string") return schema.type;
  return BY_KEYWORD.find(([, words]) => words.some((word) => Object.hasOwn(schema, word)))?.[0] ?? "any";
}

// Whether a value could belong to a schema: enough to choose among alternatives.
export function looksLike(root, schema, value, depth = 0) {
  if (depth > DEEPEST_REFERENCE) return true;
  const real = resolved(root, schema);
  if (Object.hasOwn(real, "const")) return same(real.const, value);
  const offered = choices(root, real);
  if (offered) return offered.some((choice) => same(choice.value, value));
  const several = alternatives(root, real);
  if (several) return (several.nullable && value === null) || several.branches.some((branch) => looksLike(root, branch, value, depth + 1));
  switch (typeOf(real)) {
    case "object": return isObject(value) && objectFits(root, real, value, depth + 1);
    case "array": return Array.isArray(value);
    case "string": return typeof value === "string";
    case "integer": return Number.isInteger(value);
    case "number": return typeof value === "number";
    case "boolean": return typeof value === "boolean";
    case "null": return value === null;
    default: return true;
  }
}

function objectFits(root, schema, value, depth) {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  if (!required.every((name) => Object.hasOwn(value, name))) return false;
  const names = Object.keys(value);
  if (schema.additionalProperties === false && !names.every((name) => Object.hasOwn(properties, name))) return false;
  return names.every((name) => !Object.hasOwn(properties, name) || looksLike(root, properties[name], value[name], depth));
}

export function same(one, other) {
  if (one === other) return true;
  if (Array.isArray(one)) return Array.isArray(other) && one.length === other.length && one.every((item, place) => same(item, other[place]));
  if (!isObject(one) || !isObject(other)) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]));
}

const FORMATS = {
  date: "a date like 2026-01-31",
  time: "a time like 12:30:00Z",
  "date-time": "a moment like 2026-01-31T12:30:00Z",
  duration: "a duration like PT5M",
  email: "an e-mail address",
  uri: "an address like https://example.com/",
  uuid: "a UUID",
};

// The bounds of a value in words, for the line under its field.
export function hint(schema) {
  const type = typeOf(schema);
  const said = [];
  if (type === "integer") said.push("whole number");
  else if (type === "number") said.push("number");
  else if (FORMATS[schema.format]) said.push(FORMATS[schema.format]);
  else if (typeof schema.format === "string") said.push(schema.format);
  const least = schema.minimum ?? schema.minLength ?? schema.minItems;
  const most = schema.maximum ?? schema.maxLength ?? schema.maxItems;
  const word = { string: " character", array: " item" }[type];
  const unit = word ? `${word}${(most ?? least) === 1 ? "" : "s"}` : "";
  if (least !== undefined && most !== undefined) said.push(`${least} to ${most}${unit}`);
  else if (least !== undefined) said.push(`at least ${least}${unit}`);
  else if (most !== undefined) said.push(`at most ${most}${unit}`);
  if (schema.exclusiveMinimum !== undefined) said.push(`more than ${schema.exclusiveMinimum}`);
  if (schema.exclusiveMaximum !== undefined) said.push(`less than ${schema.exclusiveMaximum}`);
  if (schema.multipleOf !== undefined) said.push(`a multiple of ${schema.multipleOf}`);
  if (typeof schema.pattern === "string") said.push(`matching ${schema.pattern}`);
  if (schema.uniqueItems === true) said.push("no item twice");
  if (schema.default !== undefined && schema.default !== null) said.push(`default ${JSON.stringify(schema.default)}`);
  return said.join(", ");
}
