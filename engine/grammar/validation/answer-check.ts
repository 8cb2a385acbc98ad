import {
  type Event,
  FinishReason,
  type GenerateRequest,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import { WorkBudget } from "../../work-budget.ts";
import { MAX_SCHEMA_BYTES } from "../schema/schema-document.ts";
import { CHECK_WORK, SchemaValidator, type Verdict } from "./schema-validator.ts";

export type Mismatch = { readonly part: "answer" | "arguments"; readonly strict: boolean };

type Wanted = Mismatch & { readonly schema: string };

export type WholeText = Wanted & { readonly text: string };

export type CheckedTexts = {
  readonly mismatches: readonly Mismatch[];
  /** The texts without verdict: an unusable schema, or the budget was used up. */
  readonly unchecked: number;
};

const READINGS_OF_SCHEMA = 8;

const ANY_OBJECT = '{"type":"object"}';

/** Collects complete texts with a schema. Truncated ones are skipped, and an answer that a stop string ended. */
export class AskedTexts {
  readonly #answer: Wanted | undefined;
  readonly #tools: ReadonlyMap<string, Wanted>;
  whole: readonly WholeText[] = [];
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
          this.whole = [...this.whole, { ...this.#open.wanted, text: this.#open.text }];
        }
        this.#open = undefined;
      } else if (kind?.$case === "finished" && kind.value.reason === FinishReason.STOP_SEQUENCE) {
        // The caller's stop string has cut the answer, so it need not be complete.
        this.whole = this.whole.filter(({ part }) => part !== "answer");
      }
    }
  }
}

/** All checks share one work budget; texts beyond it count as unchecked. Never throws. */
export function checkTexts(texts: readonly WholeText[]): CheckedTexts {
  const budget = new WorkBudget(CHECK_WORK);
  /** Validators by schema, as an answer may call a tool many times; undefined for an invalid schema. */
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

/** Returns the schema, or an empty text for one that is too long, so that it is not copied for each text. */
function readable(schema: string): string {
  return schema.length > MAX_SCHEMA_BYTES ? "" : schema;
}

function validatorOf(schema: string): SchemaValidator | undefined {
  try {
    return new SchemaValidator(JSON.parse(schema));
  } catch {
    return undefined;
  }
}
