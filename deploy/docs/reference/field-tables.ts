import type { SchemaNode } from "../../../gateway/reference/openapi.ts";
import { code, table } from "../markdown.ts";

export type Schemas = Readonly<Record<string, SchemaNode>>;

/** The form of field tables: of requests, where null is the same as absent, or of replies. */
export type Side = "request" | "reply";

type Field = { readonly path: string; readonly node: SchemaNode; readonly required: boolean };

/** Writes the named schemas on one page: each once, behind the one that first refers to it, with links between them. */
export class FieldTables {
  readonly #schemas: Schemas;
  readonly #written = new Set<string>();

  constructor(schemas: Schemas) {
    this.#schemas = schemas;
  }

  /** Returns the parts about a schema and those it leads to that are not on the page yet. */
  write(name: string, side: Side, heading = `### ${name}`): readonly string[] {
    if (this.#written.has(name)) return [];
    this.#written.add(name);
    const node = this.#named(name);
    const fields = fieldsOf(node, "");
    const below = fields.flatMap(({ node: field }) => referred(field));
    const rows = fields.map((field) => [
      code(field.path),
      typeWords(field.node, side),
      field.required ? "yes" : "",
      field.node.description ?? this.#descriptionBelow(field.node),
    ]);
    const needed = side === "request" ? "required" : "always";
    return [
      heading,
      node.description ?? "",
      ...(rows.length > 0 ? [table(["field", "type", needed, "meaning"], rows)] : []),
      ...below.flatMap((inner) => this.write(inner, side)),
    ];
  }

  /** Returns what a schema says that a field refers to, for a field that does not say it itself. */
  #descriptionBelow({ $ref }: SchemaNode): string {
    return ($ref && this.#named(nameOf($ref)).description) ?? "";
  }

  #named(name: string): SchemaNode {
    const node = this.#schemas[name];
    if (!node) throw new Error(`no schema ${name}`);
    return node;
  }
}

/** Returns the fields of an object, and those of objects in it that have no name. */
function fieldsOf(node: SchemaNode, above: string): readonly Field[] {
  return Object.entries(node.properties ?? {}).flatMap(([key, value]) => {
    const child = value as SchemaNode;
    const path = above === "" ? key : `${above}.${key}`;
    const field = { path, node: child, required: node.required?.includes(key) ?? false };
    return [field, ...choicesOf(child).flatMap((choice) => fieldsOf(choice, path))];
  });
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
  if (node.$ref) return [`[${nameOf(node.$ref)}](#${nameOf(node.$ref).toLowerCase()})`];
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
      return "whole number";
    case "boolean":
      return "`true` or `false`";
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
  return /^(?:string|number|whole number|object)\b/.test(one) ? one.replace(/string|number|object/, "$&s") : one;
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
