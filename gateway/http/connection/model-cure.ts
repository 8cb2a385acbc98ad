import { ApiError, type Envelope } from "../../errors.ts";
import { errorBody, errorBodyB, messageOf } from "../../formats/error-envelope.ts";

/** The setting of an agent's model, by the start of its `user-agent`. */
const SETTINGS: readonly (readonly [agent: string, cure: string])[] = [
  ["claude-cli/", "Set ANTHROPIC_MODEL and ANTHROPIC_SMALL_FAST_MODEL."],
  ["codex", "Set model in ~/.codex/config.toml."],
];

/**
 * Claude Code 2.1.332 repeats a 400 of any other type up to five times, each time with a feature less. It shows the
 * message of this one at once.
 */
const ENDS_AT_ONCE = "policy_blocked";

/** Returns the body of an error; the refusal of an unknown model names the setting of the agent that asks. */
export function curedBody(
  error: ApiError,
  envelope: Envelope,
  { requestId, userAgent = "" }: { readonly requestId: string; readonly userAgent?: string | undefined },
): object {
  const found = error.code === "unknown_model" && SETTINGS.find(([agent]) => userAgent.startsWith(agent));
  if (!found) return errorBody(error, envelope, requestId);
  const [agent, cure] = found;
  const wording = { a: `${messageOf(error, "a")} ${cure}`, b: `${messageOf(error, "b")} ${cure}` };
  const named = new ApiError(error.code, wording, error.options);
  if (envelope !== "b" || agent !== "claude-cli/") return errorBody(named, envelope, requestId);
  const body = errorBodyB(named, requestId);
  return { ...body, error: { ...body.error, type: ENDS_AT_ONCE } };
}
