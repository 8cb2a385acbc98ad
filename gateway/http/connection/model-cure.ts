import { ApiError, type Envelope } from "../../errors.ts";
import { errorBody, errorBodyB, messageOf } from "../../formats/error-envelope.ts";

const CLAUDE_CODE = "claude-cli/";

/** The setting of an agent's model, by the start of its `user-agent`. Other agents send that of their library. */
const SETTINGS: readonly (readonly [agent: string, cure: string])[] = [
  [CLAUDE_CODE, "Set ANTHROPIC_MODEL and ANTHROPIC_SMALL_FAST_MODEL."],
  ["codex", "Set model in ~/.codex/config.toml."],
  ["opencode/", "Set model in opencode.json."],
  ["QwenCode/", "Set it by -m or OPENAI_MODEL."],
  ["kimi-code-cli/", "Set KIMI_MODEL_NAME."],
  ["pi/", "Set it by --model and in ~/.pi/agent/models.json."],
  ["factory-cli/", "Set it by -m and in ~/.factory/config.json."],
];

/**
 * Claude Code 2.1.332 repeats a 400 of any other type up to five times, each time with a feature less. It shows the
 * message of this one at once.
 */
const ENDS_AT_ONCE = "policy_blocked";

/** Returns the error; the refusal of an unknown model names the setting of the agent that asks. */
export function cured(error: ApiError, userAgent = ""): ApiError {
  const found = error.code === "unknown_model" && SETTINGS.find(([agent]) => userAgent.startsWith(agent));
  if (!found) return error;
  const wording = { a: `${messageOf(error, "a")} ${found[1]}`, b: `${messageOf(error, "b")} ${found[1]}` };
  return new ApiError(error.code, wording, error.options);
}

/** Returns the body of an error that `cured` has returned. */
export function curedBody(error: ApiError, envelope: Envelope, requestId: string, userAgent = ""): object {
  if (error.code !== "unknown_model" || envelope !== "b" || !userAgent.startsWith(CLAUDE_CODE))
    return errorBody(error, envelope, requestId);
  const body = errorBodyB(error, requestId);
  return { ...body, error: { ...body.error, type: ENDS_AT_ONCE } };
}
