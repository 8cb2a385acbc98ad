import { type Gbnf, literal, NEVER, sequence } from "../../gbnf/gbnf.ts";
import { fixedMember, type JsonValue } from "../../gbnf/json-value.ts";
import { namesIn, presenceKeywords } from "../schema/presence.ts";
import { isObject } from "../schema/schema-document.ts";
import { atLeast, atMost, type Conversion, type PlainNode } from "../schema/schema-facets.ts";
import { type Member, memberList } from "./member-list.ts";
import { type Keys, keysOf, mayHaveName, memberNodes, otherMember } from "./other-members.ts";
import { evaluatedBy } from "./unevaluated.ts";

/** Each optional property is an open alternative that the sampler follows for every token. */
export const MAX_OPTIONAL = 512;

/** Declared properties in order, then others where keywords or `conversion.undeclared` allow them. */
export function objectGrammar(conversion: Conversion, nodes: readonly PlainNode[], isFree: boolean): Gbnf {
  const { rules } = conversion;
  for (const { schema } of nodes)
    rules.budget.pay(requiredOf(schema.required).length + namesOf(schema.properties).length);
  const required = new Set(nodes.flatMap(({ schema }) => requiredOf(schema.required)));
  const presence = nodes.flatMap(({ schema }) => presenceKeywords(schema, rules.budget).map((each) => each.presence));
  const declared = new Set(nodes.flatMap(({ schema }) => namesOf(schema.properties)));
  const asked = presence.flatMap((each) => [...namesIn(each)]);
  const names = [...new Set([...declared, ...required, ...asked])];
  const keys = keysOf(conversion, nodes);
  const isClosed = conversion.undeclared === "declared" && nodes.some((node) => declaresSome(conversion, node));
  const closing = evaluatedBy(conversion, nodes);
  const allowed = (name: string) =>
    mayHaveName(keys, name) &&
    (required.has(name) || declared.has(name) || !isClosed || isSpokenOf(conversion, nodes, name, keys));
  const [first] = nodes;
  let optional = 0;
  const members = names.map((name): Member => {
    rules.budget.pay(nodes.length);
    const isRequired = required.has(name);
    const isOut = !allowed(name) || (closing !== undefined && !closing(name, keys));
    const value = isOut ? NEVER : conversion.value(nodes.flatMap((node) => memberNodes(conversion, node, name, keys)));
    if (!isRequired && value !== NEVER) optional += 1;
    if (first !== undefined && optional > MAX_OPTIONAL)
      conversion.tooCostly(first, "properties", `has more than ${MAX_OPTIONAL} optional properties`);
    return { name, text: value === NEVER ? NEVER : rules.fresh(() => fixedMember(rules, name, value)), isRequired };
  });
  const other = otherMember(conversion, nodes, names, keys, isClosed || closing !== undefined);
  const min = atLeast(nodes, "minProperties");
  const max = atMost(nodes, "maxProperties");
  const most = Math.min(
    max ?? Number.POSITIVE_INFINITY,
    other === undefined ? members.length : Number.POSITIVE_INFINITY,
  );
  if (min > most || required.size > most) return NEVER;
  return sequence(literal("{"), memberList(rules, members, other, { presence, min, max, isFree }), literal("}"));
}

/** Returns whether the schema itself, and not a negation, declares properties. */
function declaresSome({ negation }: Conversion, { schema }: PlainNode): boolean {
  return !negation?.isMade(schema) && namesOf(schema.properties).length > 0;
}

function isSpokenOf(conversion: Conversion, nodes: readonly PlainNode[], name: string, keys: Keys): boolean {
  return nodes.some((node) => memberNodes(conversion, node, name, keys).length > 0);
}

function namesOf(map: JsonValue | undefined): readonly string[] {
  return isObject(map) ? Object.keys(map) : [];
}

function requiredOf(list: unknown): readonly string[] {
  return Array.isArray(list) ? list.filter((name): name is string => typeof name === "string") : [];
}
