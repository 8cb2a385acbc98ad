import type { JsonValue } from "../../gbnf/json-value.ts";
import type { WorkBudget } from "../../work-budget.ts";
import { isList, isObject, type SchemaObject } from "./schema-document.ts";
import { keyword } from "./schema-keywords.ts";

/** A condition on the names of an object's members, whatever their values. */
export type Presence = boolean | Formula;

type Formula = (
  | { readonly kind: "has"; readonly name: string }
  | { readonly kind: "not"; readonly of: Presence }
  | { readonly kind: "and" | "or"; readonly of: readonly Presence[] }
) & {
  /** The cached text, equal for equal formulas: the same parts are joined often. */
  text: string | undefined;
};

/** A keyword that only asks for presence. `allowsOthers`: values that are no objects satisfy it. */
export type PresenceKeyword = {
  readonly keyword: string;
  readonly presence: Presence;
  readonly allowsOthers: boolean;
};

/** The condition of a schema on objects, and whether it allows values that are none. */
type Asked = { readonly presence: Presence; readonly allowsOthers: boolean };

const MAX_ALTERNATIVES = 32;
const MAX_DEPTH = 16;
const LISTS = ["anyOf", "oneOf"] as const;
const DEPENDING = ["dependentRequired", "dependentSchemas", "dependencies"] as const;
const KEYWORDS = [...LISTS, "not", "if", ...DEPENDING];
const NONE: readonly PresenceKeyword[] = [];

const KNOWN = new WeakMap<SchemaObject, readonly PresenceKeyword[]>();

/**
 * Keywords that only constrain presence, which the order of members enforces without further readings. As alternatives
 * they would begin alike, and a text of such an object would be read in all of them at once.
 *
 *     { anyOf: [{ required: ["a"] }, { required: ["b"] }] }   a or b
 *     { oneOf: [{ required: ["a"] }, { required: ["b"] }] }   (a and not b) or (not a and b)
 *     { dependentRequired: { a: ["b"] } }                     not a, or b
 *     { anyOf: [{ required: ["a"] }, { minProperties: 2 }] }  none: it asks for more than names
 */
export function presenceKeywords(schema: SchemaObject, budget: WorkBudget): readonly PresenceKeyword[] {
  if (!KEYWORDS.some((name) => schema[name] !== undefined)) return NONE;
  const known = KNOWN.get(schema);
  if (known !== undefined) return known;
  const found: PresenceKeyword[] = [];
  const add = (name: string, asked: Asked | undefined) => {
    if (asked !== undefined) found.push({ keyword: name, ...asked });
  };
  for (const name of LISTS) if (isList(schema[name])) add(name, ofList(name, schema[name], budget, 0));
  if (schema.not !== undefined) add("not", negated(askedOf(schema.not, budget, 0)));
  if (schema.if !== undefined) add("if", ofBranches(schema, budget, 0));
  for (const name of DEPENDING) if (isObject(schema[name])) add(name, ofDependencies(schema[name], budget, 0));
  KNOWN.set(schema, found);
  return found;
}

export function namesIn(presence: Presence, found: Set<string> = new Set()): ReadonlySet<string> {
  if (typeof presence === "boolean") return found;
  if (presence.kind === "has") found.add(presence.name);
  else if (presence.kind === "not") namesIn(presence.of, found);
  else for (const part of presence.of) namesIn(part, found);
  return found;
}

/** Returns the formula after the presence of one member is decided. It charges for the formula's size. */
export function knowing(presence: Presence, name: string, isThere: boolean, budget: WorkBudget): Presence {
  if (typeof presence === "boolean") return presence;
  budget.pay(1);
  switch (presence.kind) {
    case "has":
      return presence.name === name ? isThere : presence;
    case "not": {
      const inside = knowing(presence.of, name, isThere, budget);
      return inside === presence.of ? presence : not(inside);
    }
    default: {
      const parts = presence.of.map((part) => knowing(part, name, isThere, budget));
      if (parts.every((part, at) => part === presence.of[at])) return presence;
      for (const part of parts) budget.payForText(textOf(part).length);
      return joined(presence.kind, parts);
    }
  }
}

export function allOf(parts: readonly Presence[]): Presence {
  return joined("and", parts);
}

/** Joins conditions: `true` decides an "or", `false` an "and"; the opposite adds nothing. Equal parts count once. */
function joined(kind: "and" | "or", parts: readonly Presence[]): Presence {
  const deciding = kind === "or";
  const texts = new Map<string, Presence>();
  for (const part of parts) {
    if (part === deciding) return deciding;
    if (typeof part === "object") texts.set(textOf(part), part);
  }
  const [only] = texts.values();
  if (only === undefined) return !deciding;
  return texts.size === 1 ? only : { kind, of: [...texts.values()], text: undefined };
}

function textOf(presence: Presence): string {
  if (typeof presence === "boolean") return String(presence);
  presence.text ??= freshTextOf(presence);
  return presence.text;
}

function freshTextOf(presence: Formula): string {
  if (presence.kind === "has") return JSON.stringify(presence.name);
  if (presence.kind === "not") return `!${textOf(presence.of)}`;
  return `${presence.kind}(${presence.of.map(textOf).join()})`;
}

/** Numbers formulas, equal ones alike: the open condition is a part of the key of a grammar's rule. */
export class PresenceNumbers {
  readonly #numbers = new Map<string, number>();

  of(presence: Presence, budget: WorkBudget): number {
    const text = textOf(presence);
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    budget.payForText(text.length);
    const number = this.#numbers.size;
    this.#numbers.set(text, number);
    return number;
  }
}

function has(name: string): Presence {
  return { kind: "has", name, text: undefined };
}

function not(presence: Presence): Presence {
  if (typeof presence === "boolean") return !presence;
  return presence.kind === "not" ? presence.of : { kind: "not", of: presence, text: undefined };
}

function negated(asked: Asked | undefined): Asked | undefined {
  return asked && { presence: not(asked.presence), allowsOthers: !asked.allowsOthers };
}

/** Returns the condition of a whole schema; undefined if any of its keywords asks for more than presence. */
function askedOf(schema: JsonValue, budget: WorkBudget, depth: number): Asked | undefined {
  if (typeof schema === "boolean") return { presence: schema, allowsOthers: schema };
  if (!isObject(schema) || depth > MAX_DEPTH) return undefined;
  const names = Object.keys(schema);
  budget.pay(1 + names.length / 2);
  const parts: Asked[] = [];
  for (const name of names) {
    const part = ofKeyword(schema, name, budget, depth + 1);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  return {
    presence: allOf(parts.map(({ presence }) => presence)),
    allowsOthers: parts.every((part) => part.allowsOthers),
  };
}

const ANYTHING: Asked = { presence: true, allowsOthers: true };

function ofKeyword(schema: SchemaObject, name: string, budget: WorkBudget, depth: number): Asked | undefined {
  const value = schema[name] ?? null;
  switch (name) {
    case "type":
      return value === "object" ? { presence: true, allowsOthers: false } : undefined;
    case "required":
      return isList(value) ? { presence: hasAll(value, budget), allowsOthers: true } : undefined;
    case "properties":
      return isObject(value) ? ofProperties(value, budget) : undefined;
    case "not":
      return negated(askedOf(value, budget, depth));
    case "allOf":
    case "anyOf":
    case "oneOf":
      return isList(value) ? ofList(name, value, budget, depth) : undefined;
    case "if":
      return ofBranches(schema, budget, depth);
    case "dependentRequired":
    case "dependentSchemas":
    case "dependencies":
      return isObject(value) ? ofDependencies(value, budget, depth) : undefined;
    default:
      // A reference, a definition and the branches of an `if` add no condition here.
      return keyword(name) === undefined ? ANYTHING : undefined;
  }
}

function hasAll(names: readonly JsonValue[], budget: WorkBudget): Presence {
  budget.pay(names.length);
  return allOf(names.map((name) => has(String(name))));
}

/** Returns the condition of `properties`; undefined unless it only forbids members. */
function ofProperties(properties: SchemaObject, budget: WorkBudget): Asked | undefined {
  const parts: Presence[] = [];
  for (const [name, schema] of Object.entries(properties)) {
    budget.pay(1);
    if (schema === false) parts.push(not(has(name)));
    else if (schema !== true && !(isObject(schema) && Object.keys(schema).every((key) => keyword(key) === undefined)))
      return undefined;
  }
  return { presence: allOf(parts), allowsOthers: true };
}

function ofList(name: string, list: readonly JsonValue[], budget: WorkBudget, depth: number): Asked | undefined {
  const parts: Asked[] = [];
  for (const schema of list) {
    const part = askedOf(schema, budget, depth + 1);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  const presences = parts.map(({ presence }) => presence);
  const allowing = parts.filter((part) => part.allowsOthers).length;
  if (name === "allOf") return { presence: allOf(presences), allowsOthers: allowing === parts.length };
  if (name === "anyOf") return { presence: joined("or", presences), allowsOthers: allowing > 0 };
  // Of a `oneOf`, each part with the opposite of all others: the formula grows by the square.
  if (parts.length > MAX_ALTERNATIVES) return undefined;
  budget.pay(parts.length * parts.length);
  const only = (at: number) => allOf(presences.map((presence, other) => (other === at ? presence : not(presence))));
  return {
    presence: joined(
      "or",
      presences.map((_, at) => only(at)),
    ),
    allowsOthers: allowing === 1,
  };
}

/** Returns (not if, or then) and (if, or else). */
function ofBranches(schema: SchemaObject, budget: WorkBudget, depth: number): Asked | undefined {
  const condition = askedOf(schema.if ?? true, budget, depth + 1);
  const behind = askedOf(schema.then ?? true, budget, depth + 1);
  const otherwise = askedOf(schema.else ?? true, budget, depth + 1);
  if (condition === undefined || behind === undefined || otherwise === undefined) return undefined;
  return {
    presence: allOf([
      joined("or", [not(condition.presence), behind.presence]),
      joined("or", [condition.presence, otherwise.presence]),
    ]),
    allowsOthers: condition.allowsOthers ? behind.allowsOthers : otherwise.allowsOthers,
  };
}

/** Returns, for each member, (not the member, or the condition behind it). */
function ofDependencies(map: SchemaObject, budget: WorkBudget, depth: number): Asked | undefined {
  const parts: Presence[] = [];
  for (const [name, inner] of Object.entries(map)) {
    const asked = isList(inner) ? hasAll(inner, budget) : askedOf(inner, budget, depth + 1)?.presence;
    if (asked === undefined) return undefined;
    parts.push(joined("or", [not(has(name)), asked]));
  }
  return { presence: allOf(parts), allowsOthers: true };
}
