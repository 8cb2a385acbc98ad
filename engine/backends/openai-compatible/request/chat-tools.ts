import type { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Tool, ToolChoiceMode } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../../../errors.ts";
import { planToolUse } from "../../request-plan/tool-use.ts";
import type { Dialect } from "../dialect/dialect.ts";
import { type JsonValue, rawObject } from "../http/raw-json.ts";
import type { SpelledMarks } from "../marks/spelled-marks.ts";

/** The plan of what an engine is shown of the tools, and what the answer may do with them. */
export type ToolPlan = {
  /** The tools that the model sees. */
  readonly shown: readonly Tool[];
  /** The names that the answer may call. */
  readonly callable: ReadonlySet<string>;
  /** The body's `tool_choice`. */
  readonly choice: JsonValue;
  /** Whether the answer has to be a call. */
  readonly mustCall: boolean;
  /** The most calls in one answer: 0, 1, or Infinity without a bound. */
  readonly maxCalls: number;
};

/**
 * Reads the tool fields of a request. An allowed subset is what the engine is shown, as no engine takes a subset beside
 * the list; a single one that has to be called is named instead where the engine takes names, so that the prompt keeps
 * its prefix. Throws `EngineError` INVALID_REQUEST for a choice that no tool fits.
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
 * Writes the tools of a body, their schemas as the caller wrote them but for marks of the model. Throws `EngineError`:
 * INVALID_SCHEMA, and INVALID_REQUEST for a name that holds a mark, as no answer could call it.
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
