import { existsSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { describe, expect, test } from "vitest";
import { ApiError } from "../../../gateway/errors.ts";
import { chat } from "../../../gateway/formats/chat/request.ts";
import { CHAT_UNTAKEN } from "../../../gateway/formats/chat/schema.ts";
import type { Format } from "../../../gateway/formats/format.ts";
import { messages } from "../../../gateway/formats/messages/request.ts";
import { MESSAGES_UNTAKEN } from "../../../gateway/formats/messages/schema.ts";
import type { UntakenField } from "../../../gateway/formats/request-body.ts";
import { compaction, responses } from "../../../gateway/formats/responses/request.ts";
import { RESPONSES_UNTAKEN } from "../../../gateway/formats/responses/schema.ts";
import { CONTEXT } from "../../support/events/encoding-context.ts";
import { type Declared, requestTypes, type Shape } from "../../support/sdk/request-types.ts";

/*
 * The declarations of the official SDKs list what clients may send. Each of their fields is sent in a request, and is
 * honoured, refused by its name, or in the list of ignored fields of the reference. A field is honoured if one of its
 * values makes another request or answer than its absence. Values are made from the types; the tables here complete
 * them.
 */

const FOLDER = process.env.SVC_TEST_NEWEST_SDKS || process.cwd();

type Json = string | number | boolean | object | undefined;

type Case = {
  readonly of: Declared;
  readonly format: Format;
  readonly untaken: readonly UntakenField[];
  /** The smallest body in which all fields mean something. */
  readonly base: Readonly<Record<string, Json>>;
};

const PNG = Buffer.from("\x89PNG\r\n\x1a\n..", "latin1").toString("base64");
const says = { role: "user", content: "hi" };
const chatTool = { type: "function", function: { name: "f" } };
const of = (file: string, name: string): Declared => ({ file, name });
const OPENAI = "openai/resources";
const ANTHROPIC = "@anthropic-ai/sdk/resources";

const inChat = {
  format: chat,
  untaken: CHAT_UNTAKEN,
  base: { model: "svc-qwen", messages: [says], tools: [chatTool], logprobs: true },
};
const inMessages = {
  format: messages,
  untaken: MESSAGES_UNTAKEN,
  base: { model: "svc-qwen", max_tokens: 16, messages: [says], tools: [{ name: "f", input_schema: {} }] },
};
const inResponses = {
  format: responses,
  untaken: RESPONSES_UNTAKEN,
  base: { model: "svc-qwen", input: [says], tools: [{ type: "function", name: "f" }] },
};

const ALL_CASES: readonly Case[] = [
  { of: of(`${OPENAI}/chat/completions/completions`, "ChatCompletionCreateParamsBase"), ...inChat },
  { of: of(`${OPENAI}/responses/responses`, "ResponseCreateParamsBase"), ...inResponses },
  { of: of(`${OPENAI}/responses/responses`, "ResponseCompactParams"), ...inResponses, format: compaction },
  { of: of(`${OPENAI}/beta/responses/responses`, "ResponseCreateParamsBase"), ...inResponses },
  { of: of(`${ANTHROPIC}/messages/messages`, "MessageCreateParamsBase"), ...inMessages },
  { of: of(`${ANTHROPIC}/beta/messages/messages`, "MessageCreateParamsBase"), ...inMessages },
];

const CASES = ALL_CASES.filter(({ of }) => existsSync(join(FOLDER, "node_modules", `${of.file}.d.ts`)));

let read: ReadonlyMap<Declared, Shape> | undefined;

/** The types of counts, whose fields are checked as those of the other, and change no count beside the prompt. */
const COUNTS: readonly (readonly [counts: Declared, creates: Declared])[] = ["messages", "beta/messages"].map(
  (folder) => {
    const file = `${ANTHROPIC}/${folder}/messages`;
    return [of(file, "MessageCountTokensParams"), of(file, "MessageCreateParamsBase")];
  },
);

function shapes(): ReadonlyMap<Declared, Shape> {
  const declared = [...CASES.map(({ of }) => of), ...COUNTS.flat()];
  const found = read ? [] : requestTypes(FOLDER, declared);
  read ??= new Map(declared.map((one, at) => [one, found[at] as Shape]));
  return read;
}

/** Texts that mean something, by the name of their field. */
const TEXTS: Readonly<Record<string, string>> = {
  ...{ model: "svc-qwen", name: "f", tool_name: "f", arguments: "{}", media_type: "image/png" },
  ...{ url: `data:image/png;base64,${PNG}`, image_url: `data:image/png;base64,${PNG}`, data: PNG },
};

/** Values beside those of the type, by the name of their field. */
const VALUES: Readonly<Record<string, readonly Json[]>> = {
  ...{ logit_bias: [{ 5: 1 }], input_schema: [{ type: "object" }], schema: [{ type: "object" }] },
  ...{ metadata: [{ user_id: "u", a: "b" }], input: [{ a: 1 }], parameters: [{ type: "object" }] },
};

/** Of several values of one field, the first of these counts. */
const OUTCOMES = ["honoured", "refused", "ignored", "unclear"] as const;

/** Fields that an object of a kind needs though its type does not say so. */
const NEEDED: Readonly<Record<string, object>> = {
  compact_20260112: { pause_after_compaction: true, trigger: { type: "input_tokens", value: 0 } },
  compaction: { content: "x" },
  document: { source: { type: "text", media_type: "text/plain", data: "x" } },
  input_image: { image_url: TEXTS.image_url },
  thinking: { thinking: "" },
  function_call_output: { call_id: "x" },
  custom_tool_call_output: { call_id: "x" },
};

/** The parameter of the SDKs' beta types that is sent as a header. */
const IN_A_HEADER = "betas";

/** Single values that are refused of fields that are honoured. */
const REFUSED_VALUES: ReadonlySet<string> = new Set(["billing_policy.bill_to: user_profile"]);

type Outcome = (typeof OUTCOMES)[number];

const SEALER = { sign: (text: string) => text, seal: (text: string) => text, open: (sealed: string) => sealed };
const CONTEXT_HERE = { ...CONTEXT, sealer: () => SEALER, acceptsImages: () => true };

class Judge {
  /** By the path of each field: names, `[]` for lists, and `<type>` behind the kind of an item. */
  readonly outcomes = new Map<string, Outcome>();
  /** The values that are refused of fields that are honoured. */
  readonly #refused = new Set<string>();
  readonly #case: Case;
  readonly #ignored: readonly string[];
  readonly #seen = new Map<Shape, Set<string | undefined>>();

  constructor(one: Case) {
    this.#case = one;
    this.#ignored = one.untaken.filter(({ becomes }) => becomes === "ignored").map(({ field }) => field);
  }

  /** Judges the fields of an object, of which `sample` is one that `embed` puts into a body at `path`. */
  object(shape: Shape, path: string, embed: (value: object) => object, sample: Variant): void {
    const kinds = this.#seen.get(shape) ?? new Set();
    if (kinds.has(kindOf(sample))) return;
    this.#seen.set(shape, kinds.add(kindOf(sample)));
    // A field that has one value and may not be absent says nothing; kinds are judged as the objects that they name.
    for (const [name, field] of shape.fields ?? [])
      if (name !== "type" && name !== IN_A_HEADER && !(field.required && field.shape.kind === "literal"))
        this.#field(name, field.shape, path === "" ? name : `${path}.${name}`, (value) =>
          embed({ ...sample, [name]: value }),
        );
  }

  #field(name: string, shape: Shape, at: string, embed: (value: Json) => object): void {
    const without = this.#prepared(embed(undefined));
    const plain = optionsOf(shape).filter(({ kind }) => kind !== "list" && kind !== "object");
    const values = [...(VALUES[name] ?? []), ...plain.flatMap((one) => valuesOf(one, name))];
    const found = values.map((value) => this.#outcome(embed(value), without, at));
    const isListed = this.#isListed(at);
    for (const option of optionsOf(shape)) {
      if (option.kind === "object") found.push(...this.#variants(option, at, embed, without, isListed));
      if (option.kind !== "list") continue;
      const empty = this.#prepared(embed([]));
      const base = empty instanceof ApiError ? without : empty;
      for (const one of optionsOf(option.item as Shape)) {
        const embedItem = (value: Json) => embed([value]);
        if (one.kind === "object") found.push(...this.#variants(one, `${at}[]`, embedItem, base, isListed));
        else for (const value of valuesOf(one, name)) found.push(this.#outcome(embedItem(value), base, at));
      }
    }
    const outcome = OUTCOMES.find((one) => found.includes(one));
    if (outcome) this.#note(at, outcome);
    if (outcome !== "honoured" || name === "model") return;
    for (const [index, value] of values.entries())
      if (found[index] === "refused" && typeof value === "string") this.#refused.add(`${shortened(at)}: ${value}`);
  }

  /** Judges the kinds of an object, and the fields of those that are taken. Returns the outcomes that count for the object. */
  #variants(shape: Shape, at: string, embed: (value: Json) => object, without: object, isListed: boolean): Outcome[] {
    const found: Outcome[] = [];
    const isItem = at.endsWith("[]");
    for (const [least, most] of variantsOf(shape)) {
      const kind = kindOf(least);
      const steps = at.replace(/\[\]$/, "");
      const first = this.#outcome(embed(least), without, steps);
      const outcome = first === "honoured" ? first : best(first, this.#outcome(embed(most), without, steps));
      const label = isItem && kind !== undefined ? `${at}<${kind}>` : undefined;
      if (label) this.#note(label, outcome);
      const isStructure =
        outcome === "ignored" &&
        label === undefined &&
        [...(shape.fields?.keys() ?? [])].some((name) => name !== "type");
      if (!isStructure || isListed) found.push(outcome);
      if (!isListed && (outcome === "honoured" || isStructure)) this.object(shape, at, embed, least);
    }
    return found;
  }

  #note(at: string, outcome: Outcome): void {
    const path = shortened(at);
    this.outcomes.set(path, best(this.outcomes.get(path) ?? outcome, outcome));
  }

  /**
   * The fields that are neither honoured, refused nor listed, those that are listed though honoured, and single values
   * that are refused.
   */
  get faults(): readonly string[] {
    const fields = [...this.outcomes].flatMap(([at, outcome]) => {
      const isIgnored = outcome === "ignored" && !this.#isListed(at);
      const isTaken = outcome === "honoured" && this.#ignored.includes(at);
      return outcome === "unclear" || isIgnored || isTaken ? [`${at} is ${outcome}`] : [];
    });
    const values = [...this.#refused].filter((value) => !REFUSED_VALUES.has(value));
    return [...fields, ...values.map((value) => `${value} is refused`)];
  }

  /** Whether a row of the list is about a field, or about the one that it is in. */
  #isListed(at: string): boolean {
    const path = shortened(at);
    return this.#ignored.some((row) => path === row || (path.startsWith(row) && /^[.[<]/.test(path.slice(row.length))));
  }

  #outcome(body: object, without: object, at: string): Outcome {
    const prepared = this.#prepared(body);
    // A vendor's field is refused by its name, never as one that is unknown.
    if (prepared instanceof ApiError)
      return prepared.code !== "unknown_parameter" && isAbout(prepared, at) ? "refused" : "unclear";
    if (without instanceof ApiError) return "honoured";
    return isDeepStrictEqual(prepared, without) ? "ignored" : "honoured";
  }

  #prepared(body: object): object {
    try {
      return this.#case.format.prepare(whole(body), CONTEXT_HERE);
    } catch (error) {
      if (error instanceof ApiError) return error;
      throw error;
    }
  }
}

/** Returns the path in the list's notation: content of content is content, and only the last step has a kind. */
function shortened(at: string): string {
  const steps = at
    .replaceAll(/<[^>]*>(?=.)/g, "")
    .replaceAll("output[]", "content[]")
    .replaceAll(".source.content", ".content");
  return steps
    .split(".")
    .filter((step, index, all) => step !== all[index - 1])
    .join(".");
}

function best(one: Outcome, other: Outcome): Outcome {
  return OUTCOMES.find((outcome) => outcome === one || outcome === other) ?? one;
}

/** Whether an error names the field, something in it, or the top-level field that is refused as a whole. */
function isAbout({ code, path = [] }: ApiError, at: string): boolean {
  const named = path.filter((step) => typeof step === "string");
  const steps = at.replaceAll(/\[\]|<[^>]*>/g, "").split(".");
  if (code === "unsupported_parameter" && named.length === 1) return named[0] === steps[0];
  return steps.every((step, index) => step === named[index]);
}

function optionsOf(shape: Shape): readonly Shape[] {
  return shape.kind === "union" ? (shape.options ?? []).flatMap(optionsOf) : [shape];
}

/** Other texts are all different, so that none stands in for another. */
let texts = 0;

function valuesOf(shape: Shape, name: string): readonly Json[] {
  switch (shape.kind) {
    case "literal":
      return [shape.value];
    case "string":
      return [TEXTS[name] ?? `x${texts++}`];
    case "number":
      return [1, 2, 0.5];
    case "list":
      return [[valuesOf(shape.item as Shape, name)[0]]];
    case "object":
      return variantsOf(shape)
        .slice(0, 1)
        .flatMap(([least]) => least);
    case "union":
      return optionsOf(shape).flatMap((one) => valuesOf(one, name));
    case "unknown":
      return [{ a: 1 }];
  }
}

type Variant = { readonly type?: string; readonly role?: string };

function kindOf({ type, role }: Variant): string | undefined {
  return type ?? role;
}

/** The smallest objects of a type and those with all fields, one for each of its kinds. */
function variantsOf(shape: Shape): readonly (readonly [Variant, Variant])[] {
  const all = [...(shape.fields ?? [])];
  const filled = (fields: typeof all) =>
    Object.fromEntries(fields.map(([name, field]) => [name, VALUES[name]?.[0] ?? valuesOf(field.shape, name)[0]]));
  const required = filled(all.filter(([, field]) => field.required));
  const [tag, field] = all.find(([name, { required }]) => required && (name === "type" || name === "role")) ?? [];
  // Types may contain themselves, so all fields are filled at one level alone.
  const more = filled(all.filter(([, one]) => optionsOf(one.shape).every(isPlain)));
  if (!tag || !field) return [[required, { ...more, ...required }]];
  return valuesOf(field.shape, tag).map((value) => {
    const least = { ...required, ...NEEDED[String(value)], [tag]: value };
    return [least, { ...more, ...least }];
  });
}

function isPlain({ kind }: Shape): boolean {
  return kind === "literal" || kind === "string" || kind === "number";
}

type Item = { readonly role?: string; readonly type?: string; readonly [field: string]: Json };

/** Adds the rest of the conversation of a message or item: the results of its calls, the calls of its results, an end. */
function whole(body: object): object {
  const { messages: list, input } = body as { readonly messages?: readonly Item[]; readonly input?: readonly Item[] };
  if (Array.isArray(list)) return { ...body, messages: [...list.flatMap(amongCalls), says] };
  return Array.isArray(input) ? { ...body, input: [...input.flatMap(amongCalls), says] } : body;
}

function amongCalls(item: Item): readonly Item[] {
  const { role, type = "", content } = item;
  const blocks: readonly Item[] = Array.isArray(content) ? content : [];
  const ofType = (name: string) => blocks.filter((block) => block?.type === name);
  const calls = ofType("tool_use").map(({ id }) => ({ type: "tool_result", tool_use_id: id ?? "x" }));
  if (role === "assistant" && calls.length > 0) return [item, { role: "user", content: calls }];
  const results = ofType("tool_result").map((block) => ({ type: "tool_use", id: block.tool_use_id ?? "x", name: "f" }));
  if (role === "user" && results.length > 0) return [{ role: "assistant", content: results }, item];
  if (role === "tool") {
    const call = { ...chatTool, id: item.tool_call_id ?? "x", function: { name: "f", arguments: "{}" } };
    return [{ role: "assistant", tool_calls: [call] }, item];
  }
  if (Array.isArray(item.tool_calls))
    return [item, ...item.tool_calls.map(({ id }) => ({ role: "tool", tool_call_id: id }))];
  const call = { call_id: item.call_id ?? "x", name: "f", arguments: "{}", input: "x" };
  if (type.endsWith("_call_output")) return [{ type: type.replace(/_output$/, ""), ...call }, item];
  if (type.endsWith("_call")) return [item, { type: `${type}_output`, call_id: item.call_id ?? "x", output: "x" }];
  return [item];
}

function judged(one: Case): Judge {
  const judge = new Judge(one);
  judge.object(shapes().get(one.of) as Shape, "", (value) => value, one.base);
  return judge;
}

describe.each(CASES)("$of.name of $of.file", (one) => {
  test("a request type has no field that is neither honoured, refused nor listed", () => {
    const { outcomes, faults } = judged(one);
    expect([...outcomes.values()].filter((outcome) => outcome === "honoured").length).toBeGreaterThan(10);
    expect(faults).toEqual([]);
  });

  test("a request type has ignored fields, which are reported where they are not listed", () => {
    const faults = judged({ ...one, untaken: [] }).faults;
    expect(faults).toContainEqual(expect.stringMatching(/ is ignored$/));
  });
});

test.each(COUNTS)("$0.name of $0.file has no field that its messages lack", (counts, creates) => {
  const fieldsOf = (one: Declared) => [...(shapes().get(one)?.fields?.keys() ?? [])];
  expect(fieldsOf(counts).length).toBeGreaterThan(4);
  expect(fieldsOf(creates)).toEqual(expect.arrayContaining(fieldsOf(counts)));
});
