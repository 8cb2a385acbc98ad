import { EngineError } from "../../../errors.ts";
import type { Dialect } from "../dialect/dialect.ts";
import type { EngineHttp } from "../http/engine-http.ts";
import { faultOfReply, toEngineFault } from "../http/http-error.ts";

/**
 * Resolves to the number of tokens of the rendered prompt, by the engine's own template and tokenizer. `body` is the
 * JSON of all fields that affect the prompt, template variables included: without them the count is that of another
 * prompt. Throws `EngineError`.
 */
export async function countTokens(
  http: EngineHttp,
  dialect: Dialect,
  body: readonly Buffer[],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<number> {
  const call = { method: "POST", path: dialect.paths.count, body, timeoutMs } as const;
  const { status, text } = await http.fetch(call, signal);
  if (status !== 200) throw toEngineFault(faultOfReply(status, text));
  // The reply may list every token: a million of them are not parsed for one number.
  const found = new RegExp(`"${dialect.countKey}"\\s*:\\s*(\\d+)`).exec(text)?.[1];
  if (found === undefined) throw new EngineError("PROTOCOL_VIOLATION", "The engine's token count has no number.");
  return Number(found);
}
