import { EngineError, type ErrorReason } from "../../../errors.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import type { Dialect } from "../dialect/dialect.ts";
import type { RequestSettings } from "../request/request.ts";

const REFUSALS: ReadonlySet<ErrorReason> = new Set(["INVALID_REQUEST", "INVALID_SCHEMA", "UNSUPPORTED_FEATURE"]);

/** Whether the engine does not do what it was asked for, rather than having failed. */
export function isRefusal(error: unknown): boolean {
  return error instanceof EngineError && REFUSALS.has(error.reason);
}

/** What the probe throws: what is wrong, and the flags that models of the profile need. */
export function probeFailure(what: string, settings: RequestSettings, cause?: unknown): EngineError {
  const advice = settings.dialect.name === "llama-server" ? llamaAdvice(settings.profile) : flagAdvice(settings);
  return new EngineError("ENGINE_DOWN", `The engine did not pass the start-up probe: ${what}.${advice}`, {}, cause);
}

/** The same for a request that failed; a caller who left stays one. */
export function explainFailure(error: unknown, what: string, settings: RequestSettings): unknown {
  if (!(error instanceof EngineError) || error.reason === "CANCELLED") return error;
  return probeFailure(`${what} ended in ${error.reason} (${error.message.replace(/\.$/, "")})`, settings, error);
}

function llamaAdvice({ family }: ModelProfile): string {
  return ` Is it started with --jinja, and is the profile (${family}) that of the model?`;
}

function flagAdvice({ dialect, profile }: { readonly dialect: Dialect; readonly profile: ModelProfile }): string {
  const isVllm = dialect.name === "vllm";
  const { toolCall, reasoning } = (isVllm ? profile.parsers.vllm : profile.parsers.sglang) ?? {};
  const flags = [
    ...(isVllm && toolCall !== undefined ? ["--enable-auto-tool-choice"] : []),
    ...(toolCall === undefined ? [] : [`--tool-call-parser ${toolCall}`]),
    ...(reasoning === undefined ? [] : [`--reasoning-parser ${reasoning}`]),
  ];
  return flags.length === 0 ? "" : ` Models of this profile (${profile.family}) need ${flags.join(" ")}.`;
}
