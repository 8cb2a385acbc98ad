import type { SchemaNode } from "../../gateway/reference/openapi.ts";
import { code, table } from "./markdown.ts";

export type Schemas = Readonly<Record<string, SchemaNode>>;

/** The form of field tables: of requests, where null is the same as absent, or of replies. */
export type Side = "request" | "reply";

type Field = { readonly path: string; readonly node: SchemaNode; readonly required: boolean };

/**
 * Writes the named schemas on one page, each once: a request with a line for each field, and what it leads to, and
 * replies, with a row for each object. The OpenAPI document describes the fields of these.
 */
export class FieldTables {
  readonly #schemas: Schemas;
  readonly #written = new Set<string>();
  readonly #lines = new Set<string>();
  readonly #shared: ReadonlySet<string>;

  /** `shared` has the lines of fields that stand on the page of the whole API. */
  constructor(schemas: Schemas, shared: readonly string[] = []) {
    this.#schemas = schemas;
    this.#shared = new Set(shared);
  }

  /** Returns a line for each of a request's own fields. */
  linesOf(name: string): readonly string[] {
    return fieldsOf(this.#named(name), "").map((field) => this.#line(field));
  }

  /** Returns the lines of a request's own fields, and the rows of the objects below it. */
  request(name: string): readonly string[] {
    if (this.#written.has(name)) return [];
    this.#written.add(name);
    const fields = fieldsOf(this.#named(name), "");
    const rows = fields.flatMap(({ node }) => referred(node)).flatMap((inner) => this.#rows(inner, "request"));
    const lines = fields.map((field) => ({ field, line: this.#line(field) }));
    const refer = (words: string, has: (line: string) => boolean) => {
      const names = lines.filter(({ line }) => has(line)).map(({ field }) => code(field.path));
      return names.length > 0 ? [`${words}: ${names.join(", ")}.`] : [];
    };
    const isAbove = (line: string) => this.#lines.has(line);
    const isShared = (line: string) => this.#shared.has(line) && !isAbove(line);
    const fresh = lines.map(({ line }) => line).filter((line) => !isAbove(line) && !isShared(line));
    const parts = [
      ...refer("[Shared fields](api.md#shared-fields)", isShared),
      ...refer("As above", isAbove),
      ...(fresh.length > 0 ? [joined(fresh).join("\n")] : []),
      ...objects(rows),
    ];
    for (const { line } of lines) this.#lines.add(line);
    return parts;
  }

  /** Returns the rows of objects, and of those that they lead to. */
  objects(names: readonly string[]): readonly string[] {
    return objects(names.flatMap((name) => this.#rows(name, "reply")));
  }

  #rows(name: string, side: Side): readonly (readonly [name: string, fields: string])[] {
    if (this.#written.has(name)) return [];
    this.#written.add(name);
    const node = this.#named(name);
    const fields = topFieldsOf(node, "");
    const below = fieldsOf(node, "").flatMap(({ node: field }) => referred(field));
    return [
      // The name of an object that has a type and nothing else says all of it.
      ...(fields.length > 1 ? [[name, fields.map((field) => inShort(field, side)).join(", ")] as const] : []),
      ...below.flatMap((inner) => this.#rows(inner, side)),
    ];
  }

  #line({ path, node, required }: Field): string {
    const [below = ""] = referred(node);
    const meaning = node.description ?? this.#schemas[below]?.description ?? "";
    return `- ${code(path)}${required ? "\\*" : ""} ${typeWords(node, "request")}: ${meaning}`;
  }

  #named(name: string): SchemaNode {
    const node = this.#schemas[name];
    if (!node) throw new Error(`no schema ${name}`);
    return node;
  }
}

/** Returns the lines with the fields that are alike, but for their names, in one. */
function joined(lines: readonly string[]): readonly string[] {
  const names = new Map<string, string[]>();
  for (const line of lines) {
    const [, name = "", rest = ""] = /^- (\S+)(.*)$/.exec(line) ?? [];
    names.set(rest, [...(names.get(rest) ?? []), name]);
  }
  return [...names].map(([rest, alike]) => `- ${alike.join(", ")}${rest}`);
}

function objects(rows: readonly (readonly string[])[]): readonly string[] {
  return rows.length === 0 ? [] : [table(["object", "fields"], rows)];
}

/** Returns a field of an object: its name, a mark for required or optional, its one value, or the objects below it. */
function inShort({ path, node, required }: Field, side: Side): string {
  const mark = side === "request" ? (required ? "\\*" : "") : required ? "" : "?";
  const objects = referred(node).filter((name) => name !== inPascalCase(path));
  const values = node.const === undefined ? [...new Set(objects)] : [code(String(node.const))];
  return `${code(path)}${mark}${values.length > 0 ? ` ${values.join(" or ")}` : ""}`;
}

/** Returns the name of the object that a field has its name from: `CacheControl` of `cache_control`. */
function inPascalCase(path: string): string {
  return path.replaceAll(/(?:^|_)([a-z])/g, (_match, letter: string) => letter.toUpperCase());
}

function topFieldsOf(node: SchemaNode, above: string): readonly Field[] {
  return Object.entries(node.properties ?? {}).map(([key, value]) => ({
    path: above === "" ? key : `${above}.${key}`,
    node: value as SchemaNode,
    required: node.required?.includes(key) ?? false,
  }));
}

/** Returns the fields of an object, and those of objects in it that have no name. */
function fieldsOf(node: SchemaNode, above: string): readonly Field[] {
  return topFieldsOf(node, above).flatMap((field) => [
    field,
    ...choicesOf(field.node).flatMap((choice) => fieldsOf(choice, field.path)),
  ]);
}

function choicesOf(node: SchemaNode): readonly SchemaNode[] {
  const choices = [...(node.anyOf ?? []), ...(node.oneOf ?? [])] as readonly SchemaNode[];
  return choices.length === 0 ? [node] : choices.flatMap(choicesOf);
}

/** Returns the names of the schemas that a value's forms refer to, in their order. */
function referred(node: SchemaNode): readonly string[] {
  return choicesOf(node).flatMap((choice) => {
    if (choice.$ref) return [nameOf(choice.$ref)];
    return isNode(choice.items) ? referred(choice.items) : [];
  });
}

function nameOf(reference: string): string {
  return reference.split("/").at(-1) ?? "";
}

function isNode(value: unknown): value is SchemaNode {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the words for the type and range of a value. Of a request, null is the same as absent. */
export function typeWords(node: SchemaNode, side: Side = "reply"): string {
  const types = new Set(choicesOf(node).flatMap((choice) => typesOf(choice, side)));
  if (side === "request" && types.size > 1) types.delete("`null`");
  return [...types].join(" or ");
}

function typesOf(node: SchemaNode, side: Side): readonly string[] {
  if (node.$ref) return [nameOf(node.$ref)];
  if (Array.isArray(node.type)) return node.type.flatMap((type) => typesOf({ ...node, type } as SchemaNode, side));
  if (node.const !== undefined) return [code(String(node.const))];
  if (node.enum) return [node.enum.map((value) => code(String(value))).join(", ")];
  return [wordOf(node, side) + rangeOf(node)];
}

function wordOf(node: SchemaNode, side: Side): string {
  switch (node.type) {
    case "array":
      return isNode(node.items) && Object.keys(node.items).length > 0 ? `list of ${manyOf(node.items, side)}` : "list";
    case "integer":
      return "integer";
    case "boolean":
      return "boolean";
    case "null":
      return "`null`";
    case "object":
      return isNode(node.additionalProperties) ? `object of ${manyOf(node.additionalProperties, side)}` : "object";
    default:
      return typeof node.type === "string" ? node.type : "any";
  }
}

function manyOf(node: SchemaNode, side: Side): string {
  const one = typeWords(node, side);
  return /^(?:string|number|integer|object)\b/.test(one) ? one.replace(/string|number|integer|object/, "$&s") : one;
}

function rangeOf(node: SchemaNode): string {
  const number = (value: number) => value.toLocaleString("en-US");
  const most = node.maxItems === undefined ? "" : ` and at most ${number(node.maxItems)}`;
  const bounds = [
    node.minimum !== undefined && ` from ${number(node.minimum)}`,
    typeof node.exclusiveMinimum === "number" && ` above ${number(node.exclusiveMinimum)}`,
    node.maximum !== undefined && ` to ${number(node.maximum)}`,
    node.minItems !== undefined && `, at least ${number(node.minItems)}${most}`,
    node.minItems === undefined && node.maxItems !== undefined && `, at most ${number(node.maxItems)}`,
    node.maxLength !== undefined && ` of at most ${number(node.maxLength)} characters`,
    node.pattern !== undefined && ` ${code(node.pattern)}`,
  ];
  return bounds.filter((bound) => bound !== false).join("");
}
