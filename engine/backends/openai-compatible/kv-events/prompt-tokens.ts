import { EngineError } from "../../../errors.ts";
import type { Dialect } from "../dialect/dialect.ts";
import type { EngineHttp } from "../http/engine-http.ts";
import { asCount, asList, parseFields } from "../http/json-fields.ts";

/**
 * Resolves to the tokens of a prompt, by the engine's own template and tokenizer. `body` is the JSON of a token count.
 * Throws `EngineError`, PROTOCOL_VIOLATION for a reply without tokens.
 */
export async function promptTokens(
  http: EngineHttp,
  dialect: Dialect,
  body: readonly Buffer[],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Uint32Array> {
  const { status, text } = await http.fetch({ method: "POST", path: dialect.paths.count, body, timeoutMs }, signal);
  const tokens = status === 200 ? toTokens(asList(parseFields(text)?.tokens)) : undefined;
  if (!tokens) throw new EngineError("PROTOCOL_VIOLATION", "The engine does not tell the tokens of a prompt.");
  return tokens;
}

/** Converts a list of tokens; undefined if it is empty or contains other values. */
export function toTokens(list: readonly unknown[]): Uint32Array | undefined {
  if (list.length === 0) return undefined;
  // A plain loop: `Uint32Array.from` uses an iterator, which takes ten times as long.
  const tokens = new Uint32Array(list.length);
  for (let at = 0; at < tokens.length; at += 1) {
    const token = asCount(list[at]);
    if (token === undefined) return undefined;
    tokens[at] = token;
  }
  return tokens;
}
