import { choice, EMPTY, type Gbnf, literal, NEVER, optional, repeat, sequence } from "../../gbnf/gbnf.ts";
import { anyMember, comma, fixedMember } from "../../gbnf/json-value.ts";
import { stringPattern } from "../expressions/string-pattern.ts";
import { isObject, type SchemaNode } from "../schema/schema-document.ts";
import { atLeast, atMost, type Conversion, children, entryOf, type PlainNode } from "../schema/schema-facets.ts";
import { memberKey } from "./member-key.ts";

type Member = { readonly text: Gbnf; readonly isRequired: boolean };

/**
 * The most optional properties of one object: each is an open alternative at the same place, and costs work on every
 * token.
 */
const MAX_OPTIONAL = 256;

/**
 * Matches objects: declared properties in the order of the schema, optional ones may be left out; behind them others,
 * where `additionalProperties` or `patternProperties` says so. Where nothing says so an object with `properties` has no
 * others (a model gains nothing from them), and one without `properties` is any object.
 */
export function objectGrammar(conversion: Conversion, nodes: readonly PlainNode[]): Gbnf {
  const { rules } = conversion;
  for (const { schema } of nodes)
    rules.budget.pay(requiredOf(schema.required).length + keysOf(schema.properties).length);
  const required = new Set(nodes.flatMap(({ schema }) => requiredOf(schema.required)));
  const declared = new Set(nodes.flatMap(({ schema }) => keysOf(schema.properties)));
  const names = [...new Set([...declared, ...required])];
  const members = names.map((name): Member => {
    rules.budget.pay(nodes.length);
    const value = conversion.value(nodes.flatMap((node) => propertyOf(conversion, node, name) ?? []));
    return { text: rules.fresh(() => fixedMember(rules, name, value)), isRequired: required.has(name) };
  });
  const [first] = nodes;
  if (first !== undefined && members.length - required.size > MAX_OPTIONAL) {
    conversion.tooCostly(first, "properties", `has more than ${MAX_OPTIONAL} optional properties`);
  }
  const isDeclared = nodes.some(({ schema }) => schema.properties !== undefined) || names.length > 0;
  const other = otherMember(conversion, nodes, names, isDeclared);
  // Where there are only declared members nothing is left unevaluated.
  if (other !== undefined) skipAll(conversion, nodes, "unevaluatedProperties");
  const min = atLeast(nodes, "minProperties");
  const max = atMost(nodes, "maxProperties");
  if (names.length === 0 && other !== undefined) {
    return sequence(literal("{"), rules.list(other, comma(rules), min, max), literal("}"));
  }
  if (max !== undefined && max < required.size) return NEVER;
  const most = other === undefined ? names.length : Number.POSITIVE_INFINITY;
  if (min > most) return NEVER;
  if (min > required.size) skipAll(conversion, nodes, "minProperties");
  if (max !== undefined && max < most) skipAll(conversion, nodes, "maxProperties");
  return sequence(literal("{"), memberList(conversion, members, other), literal("}"));
}

/**
 * Matches the members of an object. Commas stand between members, so what may follow depends on whether a member came
 * before.
 */
function memberList(conversion: Conversion, members: readonly Member[], other: Gbnf | undefined): Gbnf {
  const { rules } = conversion;
  const separated = (text: Gbnf) => sequence(comma(rules), text);
  const others =
    other === undefined
      ? EMPTY
      : repeat(
          rules.fresh(() => separated(other)),
          0,
          undefined,
        );
  const firstRequired = members.findIndex((member) => member.isRequired);
  const leading = firstRequired < 0 ? members.length : firstRequired + 1;
  // Behind the first `leading` members there is always one before.
  let behind: Gbnf = sequence(
    ...members.slice(leading).map(({ text, isRequired }) => (isRequired ? separated(text) : optional(separated(text)))),
    others,
  );
  const starts: Gbnf[] = firstRequired < 0 ? [other === undefined ? EMPTY : optional(sequence(other, others))] : [];
  for (let i = leading - 1; i >= 0; i -= 1) {
    const member = members[i];
    if (member === undefined) continue;
    const rest = behind;
    const restRule = rest.kind === "sequence" && rest.parts.length === 0 ? rest : rules.fresh(() => rest);
    starts.unshift(sequence(member.text, restRule));
    behind = sequence(member.isRequired ? separated(member.text) : optional(separated(member.text)), restRule);
  }
  return choice(...starts);
}

/** Matches a member that is not declared; undefined where there is none. */
function otherMember(
  conversion: Conversion,
  nodes: readonly PlainNode[],
  names: readonly string[],
  isDeclared: boolean,
): Gbnf | undefined {
  const { rules } = conversion;
  const additional = children(conversion, nodes, "additionalProperties");
  const isClosed = additional.some(({ schema }) => schema === false);
  const patterned = nodes.filter(({ schema }) => isObject(schema.patternProperties));
  const isPlain = patterned.length === 1 && names.length === 0 && (isClosed || additional.length === 0);
  if (!isPlain) for (const node of patterned) conversion.skip(node, "patternProperties");
  const [only] = patterned;
  if (isPlain && only !== undefined) return patternMember(conversion, only);
  if (isClosed || (additional.length === 0 && isDeclared)) return undefined;
  return anyMember(rules, memberKey(conversion, nodes, names), conversion.value(additional));
}

/** Matches a member whose key matches one of the patterns; a key that no grammar can hold does not occur. */
function patternMember(conversion: Conversion, node: PlainNode): Gbnf {
  const patterns = keysOf(node.schema.patternProperties);
  if (patterns.length > 1 || node.schema.propertyNames !== undefined) conversion.skip(node, "patternProperties");
  const options = patterns.map((pattern) => {
    const key = stringPattern(conversion.rules, pattern, { minLength: 0, maxLength: undefined });
    const value = entryOf(conversion, node, "patternProperties", pattern);
    if (key === undefined || value === undefined) return NEVER;
    const quoted = sequence(literal('"'), key.inside, literal('"'));
    return anyMember(conversion.rules, quoted, conversion.value([value]));
  });
  return choice(...options);
}

/** Returns what a node says about a property: its schema, or that of the properties it does not name. */
function propertyOf(conversion: Conversion, node: PlainNode, name: string): SchemaNode | undefined {
  const own = entryOf(conversion, node, "properties", name);
  return (
    own ??
    (node.schema.patternProperties === undefined ? children(conversion, [node], "additionalProperties")[0] : undefined)
  );
}

function keysOf(map: unknown): readonly string[] {
  return typeof map === "object" && map !== null ? Object.keys(map) : [];
}

function requiredOf(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((name): name is string => typeof name === "string") : [];
}

function skipAll(conversion: Conversion, nodes: readonly PlainNode[], keyword: string): void {
  for (const node of nodes) if (node.schema[keyword] !== undefined) conversion.skip(node, keyword);
}
