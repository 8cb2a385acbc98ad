import type { Event, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import { SchemaValidator, type Verdict } from "./schema-validator.ts";
import { WorkBudget } from "./work-budget.ts";

/** A whole answer, or the whole arguments of a call, that the schema of the request does not allow. */
export type Mismatch = { readonly part: "answer" | "arguments"; readonly strict: boolean };

type Wanted = Mismatch & { readonly schema: string };

const NONE: readonly Mismatch[] = [];

/** The number of times that going through the text of a schema costs as much as reading it. */
const READINGS_OF_SCHEMA = 8;

const ANY_OBJECT = '{"type":"object"}';

/**
 * The last look at what was asked for: each answer and each call that ended whole, against the schema itself. Where the
 * schema is `strict` the engine has promised it; elsewhere it is what the model should have done, and no error. What was cut
 * says so itself, and a schema that is none says nothing. All looks at one answer share one budget of work: what goes beyond
 * it is not checked, and counted.
 */
export class AnswerCheck {
  readonly #answer: Wanted | undefined;
  readonly #tools: ReadonlyMap<string, Wanted>;
  readonly #budget = new WorkBudget();
  /** By schema, as an answer may call a tool many times; undefined for what is no schema. */
  readonly #validators = new Map<string, SchemaValidator | undefined>();
  #open: { readonly wanted: Wanted; text: string } | undefined;
  #unchecked = 0;

  constructor({ outputConstraint, tools }: Pick<GenerateRequest, "outputConstraint" | "tools">) {
    this.#answer = answerOf(outputConstraint);
    this.#tools = new Map(
      tools.map(({ name, parametersJsonSchema, strict }) => {
        const schema = parametersJsonSchema === "" ? ANY_OBJECT : parametersJsonSchema;
        return [name, { part: "arguments", strict, schema }];
      }),
    );
  }

  /**
   * The answers and calls that ended whole and that nothing can be said of: their schema is none, or the budget was
   * spent.
   */
  get unchecked(): number {
    return this.#unchecked;
  }

  /** Takes the events as they come; returns what ended among them and is wrong. */
  see(events: readonly Event[]): readonly Mismatch[] {
    if (this.#answer === undefined && this.#tools.size === 0) return NONE;
    let wrong = NONE;
    for (const { kind } of events) {
      if (kind?.$case === "blockStarted") {
        const { block } = kind.value;
        const call = block?.$case === "toolCall" ? this.#tools.get(block.value.name) : undefined;
        const wanted = block?.$case === "text" ? this.#answer : call;
        this.#open = wanted && { wanted, text: "" };
      } else if (kind?.$case === "blockDelta" && this.#open) this.#open.text += kind.value.text;
      else if (kind?.$case === "blockEnded") {
        const open = this.#open;
        this.#open = undefined;
        if (!open || !kind.value.complete) continue;
        const verdict = this.#verdictOn(open.text, open.wanted.schema);
        const { part, strict } = open.wanted;
        if (verdict === "refused") wrong = [...wrong, { part, strict }];
        else if (verdict === "unchecked") this.#unchecked += 1;
      }
    }
    return wrong;
  }

  #verdictOn(text: string, schema: string): Verdict {
    const validator = this.#validatorOf(schema);
    if (validator === undefined || !this.#budget.spendOnText(text.length)) return "unchecked";
    let value: JsonValue;
    try {
      value = JSON.parse(text);
    } catch {
      return "refused";
    }
    return validator.check(value, this.#budget);
  }

  #validatorOf(schema: string): SchemaValidator | undefined {
    if (!this.#validators.has(schema) && this.#budget.spendOnText(READINGS_OF_SCHEMA * schema.length))
      this.#validators.set(schema, validatorOf(schema));
    return this.#validators.get(schema);
  }
}

function answerOf(constraint: GenerateRequest["outputConstraint"]): Wanted | undefined {
  const kind = constraint?.kind;
  if (kind?.$case === "jsonObject") return { part: "answer", strict: true, schema: ANY_OBJECT };
  if (kind?.$case !== "jsonSchema") return undefined;
  return { part: "answer", strict: kind.value.strict, schema: kind.value.schemaJson };
}

/** Makes the validator of a schema; undefined for what is no schema. */
function validatorOf(schema: string): SchemaValidator | undefined {
  try {
    return new SchemaValidator(JSON.parse(schema));
  } catch {
    return undefined;
  }
}
