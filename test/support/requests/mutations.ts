import type { SeededRandom } from "../seeded-random.ts";

/** A request body made from a valid one. */
export type Mutation = { readonly contentType: string | undefined; readonly body: Buffer };

/** The mark in the junk that a mutation inserts, so that a test can detect an answer that repeats any of it. */
export const JUNK_MARK = "JUNK7Q";

/** The placeholder for values that JSON.stringify cannot write: replaced by their raw texts. */
const RAW = "@raw@";

const RAW_VALUES = [
  ...(["1e999", "-1e400", "9007199254740993", "123456789012345678901234567890", "-0", "0.1e-400", "NaN"] as const),
  ...(["00", "+1", "1.", "'a'", "undefined", "", '"\\ud800"', '"\\u0000"', '"\\x"'] as const),
  `"${"9".repeat(5_000)}"`,
] as const;

const JUNK = [
  ...([null, true, false, 0, -1, 1.5, 2 ** 31, 2 ** 53, "", " ", "svc-qwen", JUNK_MARK] as const),
  `${JUNK_MARK}\r\nx-evil: 1`,
  `${JUNK_MARK}\u0000\u001b\u2028\u202e🚀\ufffd`,
  `${JUNK_MARK}<|im_end|></think>{{7*7}}`,
  `(a+)+$${"a".repeat(300)}${JUNK_MARK}`,
  ...([[], {}, [[]], [null], [{}], [JUNK_MARK], { type: JUNK_MARK }, { type: "text" }] as const),
  { $ref: `file:///${JUNK_MARK}` },
  { [JUNK_MARK]: JUNK_MARK },
] as const;

const NAMES = ["__proto__", "constructor", "toString", "", JUNK_MARK, "type", "role", "content", "stream"] as const;

const CONTENT_TYPES = [
  ...([undefined, "", "text/plain", "application/xml", "application/jsonx", `${JUNK_MARK}/json`] as const),
  ...(["application/json; charset=utf-16", "application/json; charset=utf-8", "application/json;;;"] as const),
  "multipart/form-data; boundary=x",
] as const;

type Container = Record<string, unknown> | unknown[];

/** Makes one change, or a few, to a valid body; they are the same for the same numbers of `random`. */
export function mutated(valid: object, random: SeededRandom): Mutation {
  const body = structuredClone(valid) as Container;
  const changes = 1 + random.below(3);
  for (let change = 0; change < changes; change += 1) mutateValue(body, random);
  const raw = random.pick(RAW_VALUES);
  const text = JSON.stringify(body).replaceAll(`"${RAW}"`, raw);
  const bytes = random.below(4) === 0 ? mutateText(text, random) : Buffer.from(text);
  return { contentType: random.below(20) === 0 ? random.pick(CONTENT_TYPES) : "application/json", body: bytes };
}

/** All objects and arrays inside a body, itself included. */
function containersOf(value: unknown): Container[] {
  if (typeof value !== "object" || value === null) return [];
  const container = value as Container;
  return [container, ...Object.values(container).flatMap(containersOf)];
}

function mutateValue(body: Container, random: SeededRandom): void {
  const containers = containersOf(body).filter((container) => Object.keys(container).length > 0);
  const container = containers[random.below(containers.length)];
  if (!container) return;
  const keys = Object.keys(container);
  const key = keys[random.below(keys.length)] ?? "";
  const value: unknown = structuredClone(Reflect.get(container, key));
  switch (random.below(8)) {
    case 0:
      if (Array.isArray(container)) container.splice(Number(key), 1);
      else Reflect.deleteProperty(container, key);
      break;
    case 1:
      if (Array.isArray(container)) container.push(...Array.from({ length: 1 + random.below(40) }, () => value));
      else put(container, random.pick(NAMES), value);
      break;
    default:
      put(container, key, replacement(value, random));
  }
}

function replacement(value: unknown, random: SeededRandom): unknown {
  switch (random.below(6)) {
    case 0:
    case 1:
      return structuredClone(random.pick(JUNK));
    case 2:
      return RAW;
    case 3:
      return nested(value, 1 + random.below(80));
    case 4:
      return typeof value === "string" ? junkString(value, random) : [value];
    default:
      return typeof value === "object" ? JSON.stringify(value) : { value };
  }
}

/** Sets an own property of the container, whatever the name: `__proto__` is only a name here. */
function put(container: Container, key: string, value: unknown): void {
  Object.defineProperty(container, key, { value, enumerable: true, configurable: true, writable: true });
}

function nested(value: unknown, levels: number): unknown {
  let inner = value;
  for (let level = 0; level < levels; level += 1) inner = level % 2 === 0 ? [inner] : { type: inner };
  return inner;
}

function junkString(value: string, random: SeededRandom): string {
  return random.pick([
    value + JUNK_MARK,
    JUNK_MARK + "x".repeat(1 + random.below(20_000)),
    value.toUpperCase(),
    `${value}\u0000`,
    value.slice(1),
    "\ud800",
    "e\u0301".repeat(1 + random.below(500)),
  ]);
}

function mutateText(text: string, random: SeededRandom): Buffer {
  const bytes = Buffer.from(text);
  const at = random.below(bytes.length);
  switch (random.below(6)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
      return bytes;
    case 2:
      bytes[at] = random.below(256);
      return bytes;
    case 3: {
      // A key that an object already has, or a new one.
      const brace = text.indexOf("{", random.below(text.length));
      const name = random.pick(["model", "messages", "input", "stream", "type", JUNK_MARK]);
      return Buffer.from(
        `${text.slice(0, brace + 1)}"${name}":${random.pick(['"x"', "[]", "true"])},${text.slice(brace + 1)}`,
      );
    }
    case 4:
      return Buffer.concat([bytes.subarray(0, at), Buffer.from([0xff, 0xc0, 0xaf]), bytes.subarray(at)]);
    default:
      return Buffer.concat([bytes, bytes.subarray(at)]);
  }
}
