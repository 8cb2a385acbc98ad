import type { Event, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import { SchemaValidator } from "./schema-validator.ts";

/** A whole answer, or the whole arguments of a call, that the schema of the request does not allow. */
export type Mismatch = { readonly part: "answer" | "arguments"; readonly strict: boolean };

type Wanted = Mismatch & { readonly schema: string };

const NONE: readonly Mismatch[] = [];

const ANY_OBJECT = '{"type":"object"}';

/**
 * The last look at what was asked for: each answer and each call that ended whole, against the schema itself. Where the
 * schema is `strict` the engine has promised it; elsewhere it is what the model should have done, and no error. What was cut
 * says so itself, and a schema that is none says nothing.
 */
export class AnswerCheck {
  readonly #answer: Wanted | undefined;
  readonly #tools: ReadonlyMap<string, Wanted>;
  #open: { readonly wanted: Wanted; text: string } | undefined;

  /** `which`: only what is `strict`, or all. */
  constructor(
    { outputConstraint, tools }: Pick<GenerateRequest, "outputConstraint" | "tools">,
    which: "strict" | "all",
  ) {
    const answer = answerOf(outputConstraint);
    const isLookedAt = (wanted: Pick<Mismatch, "strict">) => which === "all" || wanted.strict;
    this.#answer = answer && isLookedAt(answer) ? answer : undefined;
    this.#tools = new Map(
      tools.filter(isLookedAt).map(({ name, parametersJsonSchema, strict }) => {
        const schema = parametersJsonSchema === "" ? ANY_OBJECT : parametersJsonSchema;
        return [name, { part: "arguments", strict, schema }];
      }),
    );
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
        if (!open || !kind.value.complete || fits(open.text, open.wanted.schema)) continue;
        const { part, strict } = open.wanted;
        wrong = [...wrong, { part, strict }];
      }
    }
    return wrong;
  }
}

function answerOf(constraint: GenerateRequest["outputConstraint"]): Wanted | undefined {
  const kind = constraint?.kind;
  if (kind?.$case === "jsonObject") return { part: "answer", strict: true, schema: ANY_OBJECT };
  if (kind?.$case !== "jsonSchema") return undefined;
  return { part: "answer", strict: kind.value.strict, schema: kind.value.schemaJson };
}

function fits(text: string, schema: string): boolean {
  const validator = validatorOf(schema);
  if (validator === undefined) return true;
  let value: JsonValue;
  try {
    value = JSON.parse(text);
  } catch {
    return false;
  }
  return validator.allows(value);
}

/** Undefined for what is no schema. */
function validatorOf(schema: string): SchemaValidator | undefined {
  try {
    return new SchemaValidator(JSON.parse(schema));
  } catch {
    return undefined;
  }
}
