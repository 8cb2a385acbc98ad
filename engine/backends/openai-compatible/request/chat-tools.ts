import type { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Tool, ToolChoiceMode } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../../../errors.ts";
import { planToolUse } from "../../request-plan.ts";
import type { Dialect } from "../dialect/dialect.ts";
import { type JsonValue, rawObject } from "../http/raw-json.ts";
import type { SpelledMarks } from "../marks/spelled-marks.ts";

/** The tools that the engine sees, and the calls that the answer may make. */
export type ToolPlan = {
  readonly shown: readonly Tool[];
  /** The names that the answer may call. */
  readonly callable: ReadonlySet<string>;
  readonly choice: JsonValue;
  readonly mustCall: boolean;
  /** The most calls in one answer: 0, 1, or Infinity without a bound. */
  readonly maxCalls: number;
};

/**
 * Reads the tool fields of a request. Of an allowed subset only its tools are sent, as no engine accepts a subset
 * beside the list. A single required tool is named instead if the engine supports it, so that the prompt keeps its
 * prefix. Throws `EngineError` INVALID_REQUEST for a choice that no tool matches.
 */
export function planTools(
  request: Pick<GenerateRequest, "tools" | "toolChoice">,
  { namesTools }: Pick<Dialect, "namesTools">,
): ToolPlan {
  const { callable: fitting, mustCall, maxCalls } = planToolUse(request);
  const { tools, toolChoice } = request;
  const callable = new Set(fitting.map(({ name }) => name));
  if (toolChoice?.mode === ToolChoiceMode.NONE) {
    return { shown: tools, callable, choice: "none", mustCall, maxCalls: 0 };
  }
  const [only] = fitting;
  if (namesTools && mustCall && maxCalls === 1 && callable.size === 1 && only !== undefined) {
    const choice = { type: "function", function: { name: only.name } };
    return { shown: tools, callable, choice, mustCall, maxCalls };
  }
  return { shown: fitting, callable, choice: mustCall ? "required" : "auto", mustCall, maxCalls };
}

/**
 * Writes the tools of a body. Their schemas are unchanged except for spellings of special tokens. Throws `EngineError`:
 * INVALID_SCHEMA, and INVALID_REQUEST for a name with such a spelling, as no answer could call it.
 */
export function toChatTools(tools: readonly Tool[], marks: SpelledMarks): JsonValue {
  return tools.map(({ name, description, strict, parametersJsonSchema }, index) => {
    if (marks.isSpelledIn(name))
      throw new EngineError("INVALID_REQUEST", `tools[${index}].name: spells a control token of the model.`);
    const parameters = rawObject(marks.brokenJson(parametersJsonSchema === "" ? "{}" : parametersJsonSchema));
    if (!parameters) {
      throw new EngineError("INVALID_SCHEMA", `tools[${index}].parameters_json_schema: is not a JSON object.`);
    }
    return {
      type: "function",
      function: {
        name,
        description: description === "" ? undefined : marks.broken(description),
        parameters,
        strict: strict ? true : undefined,
      },
    };
  });
}
