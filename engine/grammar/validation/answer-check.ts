import {
  type Event,
  FinishReason,
  type GenerateRequest,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import { WorkBudget } from "../../work-budget.ts";
import { MAX_SCHEMA_BYTES } from "../schema/schema-document.ts";
import { CHECK_WORK, SchemaValidator, type Verdict } from "./schema-validator.ts";

/**
 * A whole answer, or the whole arguments of a call, that the schema of the request does not allow; `strict` says
 * whether it was asked for strictly.
 */
export type Mismatch = { readonly part: "answer" | "arguments"; readonly strict: boolean };

type Wanted = Mismatch & { readonly schema: string };

/** A text that ended whole, and what it was to be: plain data, which can go to another thread. */
export type WholeText = Wanted & { readonly text: string };

/** The result of looking at the texts of one answer. */
export type CheckedTexts = {
  /** The texts that their schemas do not allow. */
  readonly mismatches: readonly Mismatch[];
  /** The texts that nothing can be said of: their schema is none, or the budget of work was spent before them. */
  readonly unchecked: number;
};

/** The number of times that going through the text of a schema costs as much as reading it. */
const READINGS_OF_SCHEMA = 8;

const ANY_OBJECT = '{"type":"object"}';

/**
 * Gathers what a model was asked to write by a schema, as it is written: each answer and each call that ended whole.
 * What was cut says so itself, but for an answer that a stop string of the caller's has ended.
 */
export class AskedTexts {
  readonly #answer: Wanted | undefined;
  readonly #tools: ReadonlyMap<string, Wanted>;
  #whole: readonly WholeText[] = [];
  #open: { readonly wanted: Wanted; text: string } | undefined;

  constructor({ outputConstraint, tools }: Pick<GenerateRequest, "outputConstraint" | "tools">) {
    this.#answer = answerOf(outputConstraint);
    this.#tools = new Map(
      tools.map(({ name, parametersJsonSchema, strict }) => {
        const schema = parametersJsonSchema === "" ? ANY_OBJECT : parametersJsonSchema;
        return [name, { part: "arguments", strict, schema: readable(schema) }];
      }),
    );
  }

  /** The texts that have ended whole so far. */
  get whole(): readonly WholeText[] {
    return this.#whole;
  }

  /** Takes the events as they come. */
  see(events: readonly Event[]): void {
    if (this.#answer === undefined && this.#tools.size === 0) return;
    for (const { kind } of events) {
      if (kind?.$case === "blockStarted") {
        const { block } = kind.value;
        const call = block?.$case === "toolCall" ? this.#tools.get(block.value.name) : undefined;
        const wanted = block?.$case === "text" ? this.#answer : call;
        this.#open = wanted && { wanted, text: "" };
      } else if (kind?.$case === "blockDelta" && this.#open) this.#open.text += kind.value.text;
      else if (kind?.$case === "blockEnded") {
        if (this.#open && kind.value.complete) {
          this.#whole = [...this.#whole, { ...this.#open.wanted, text: this.#open.text }];
        }
        this.#open = undefined;
      } else if (kind?.$case === "finished" && kind.value.reason === FinishReason.STOP_SEQUENCE) {
        // The caller's own stop string has cut the answer: nobody promised that what is before it is one.
        this.#whole = this.#whole.filter(({ part }) => part !== "answer");
      }
    }
  }
}

/**
 * Checks the texts of one answer, each against the schema itself. Where a schema is `strict` the engine may have
 * promised it; elsewhere it is what the model should have done. All looks share one budget of work: what goes beyond it
 * is not checked, and counted. It never throws.
 */
export function checkTexts(texts: readonly WholeText[]): CheckedTexts {
  const budget = new WorkBudget(CHECK_WORK);
  /** The validators by schema, as an answer may call a tool many times; undefined for what is no schema. */
  const validators = new Map<string, SchemaValidator | undefined>();
  const verdictOn = ({ text, schema }: WholeText): Verdict => {
    if (!validators.has(schema) && budget.spendOnText(READINGS_OF_SCHEMA * schema.length))
      validators.set(schema, validatorOf(schema));
    const validator = validators.get(schema);
    if (validator === undefined || !budget.spendOnText(text.length)) return "unchecked";
    let value: JsonValue;
    try {
      value = JSON.parse(text);
    } catch {
      return "refused";
    }
    return validator.check(value, budget);
  };
  const mismatches: Mismatch[] = [];
  let unchecked = 0;
  for (const text of texts) {
    const verdict = verdictOn(text);
    if (verdict === "refused") mismatches.push({ part: text.part, strict: text.strict });
    else if (verdict === "unchecked") unchecked += 1;
  }
  return { mismatches, unchecked };
}

function answerOf(constraint: GenerateRequest["outputConstraint"]): Wanted | undefined {
  const kind = constraint?.kind;
  if (kind?.$case === "jsonObject") return { part: "answer", strict: true, schema: ANY_OBJECT };
  if (kind?.$case !== "jsonSchema") return undefined;
  return { part: "answer", strict: kind.value.strict, schema: readable(kind.value.schemaJson) };
}

/**
 * Returns a schema, or no schema for one that is too long to be read, so that it is not copied for each of its texts.
 */
function readable(schema: string): string {
  return schema.length > MAX_SCHEMA_BYTES ? "" : schema;
}

/** Makes the validator of a schema; undefined for what is no schema. */
function validatorOf(schema: string): SchemaValidator | undefined {
  try {
    return new SchemaValidator(JSON.parse(schema));
  } catch {
    return undefined;
  }
}
