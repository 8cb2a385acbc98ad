import { createHash } from "node:crypto";
import { asFields, asList, asText, type JsonFields, parseFields } from "../http/json-fields.ts";

/*
 * The bytes that one node sends another, past a gateway that does not read them: what the engine needs to take a prompt
 * from another engine, and what proves that it is this prompt. An engine takes what it is given: a late hand-over, or that
 * of another prompt, would bring the text of another tenant into the answer, and into the cache behind it.
 */

const VERSION = 1;
/** The most bytes of a hand-over, as of the contract: a prompt of a million tokens takes about a tenth. */
const MAX_BYTES = 1024 * 1024;
/** The largest mean difference of log probabilities of the same tokens that two engines may compute for one prompt. */
const MAX_DIFFERENCE = 0.2;

/** The log probabilities of likely first tokens of the answer, by token. */
export type Candidates = ReadonlyMap<string, number>;

export type HandOver = {
  /** What the engines of both nodes have in common. */
  readonly group: string;
  /** The digest of the prompt (`digestOfPrompt`). */
  readonly prompt: string;
  /** The first token as the engine that has read the prompt expects it; empty where it reports none. */
  readonly first: Candidates;
  /** The engine's own part, which goes to the other engine unchanged. */
  readonly engine: JsonFields;
};

/** Returns the digest of what the caches of a prompt depend on; `features` are the engine's own form of its images. */
export function digestOfPrompt(tokens: Uint32Array, salt: string, features: string): string {
  const bytes = new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength);
  return createHash("sha256")
    .update(JSON.stringify([salt, features]))
    .update(bytes)
    .digest("base64url");
}

/** Returns undefined for more bytes than a hand-over may have. */
export function writeHandOver({ group, prompt, first, engine }: HandOver): Buffer | undefined {
  const bytes = Buffer.from(JSON.stringify({ version: VERSION, group, prompt, first: [...first], engine }));
  return bytes.length > MAX_BYTES ? undefined : bytes;
}

/** Returns undefined for bytes that another version, or no node, has written. */
export function readHandOver(bytes: Uint8Array): HandOver | undefined {
  if (bytes.length > MAX_BYTES) return undefined;
  const { version, group, prompt, first, engine } = parseFields(Buffer.from(bytes).toString()) ?? {};
  if (version !== VERSION) return undefined;
  const candidates = asList(first)
    .map(asList)
    .flatMap(([token, logprob]) => (typeof logprob === "number" ? [[asText(token), logprob] as const] : []));
  return { group: asText(group), prompt: asText(prompt), first: new Map(candidates), engine: asFields(engine) };
}

/**
 * Returns whether two engines expect the same first token: at least half of the candidates are the same, as likely. A
 * grammar removes candidates and raises the others alike: then two suffice, and fewer show nothing.
 */
export function agree(one: Candidates, other: Candidates, underGrammar: boolean): boolean {
  const size = Math.min(one.size, other.size);
  if (one.size === 0) return true;
  const differences = [...one].flatMap(([token, logprob]) => {
    const same = other.get(token);
    return same === undefined ? [] : [logprob - same];
  });
  if (underGrammar ? differences.length < 2 : differences.length < size / 2 || size === 0) return underGrammar;
  const shift = underGrammar ? meanOf(differences) : 0;
  return meanOf(differences.map((difference) => Math.abs(difference - shift))) <= MAX_DIFFERENCE;
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
