import { ANSWER_PATHS, type AnswerPath, bodyFor, endOf, hasDelta, textOf } from "../http/answer-check.ts";
import { type BodyReader, readBody } from "../http/read-until.ts";
import type { GatewayProcess } from "./gateway-process.ts";

export type OpenStream = { readonly path: AnswerPath; readonly status: number; readonly body: BodyReader };

type Client = {
  readonly key?: string;
  readonly signal?: AbortSignal;
  readonly fields?: (path: AnswerPath) => object;
};

type Front = Pick<GatewayProcess, "post">;

/** Returns the field of each format that limits its answer to so many tokens. */
export function mostTokens(tokens: number): (path: string) => object {
  return (path) => ({ [path === "/v1/responses" ? "max_output_tokens" : "max_tokens"]: tokens });
}

/** Opens streams until all have begun, the formats in turn. A refused one has no text yet. */
export function openStreams(gateway: Front, count: number, client: Client = {}): Promise<OpenStream[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => openStream(gateway, index, client)));
}

async function openStream(gateway: Front, index: number, { key, signal, fields }: Client): Promise<OpenStream> {
  const path = ANSWER_PATHS[index % ANSWER_PATHS.length] ?? "/v1/messages";
  const body = bodyFor(path, `stream ${index}`, { stream: true, ...fields?.(path) });
  const response = await gateway.post(path, body, signal, key);
  const reader = readBody(response);
  if (response.status === 200) await reader.until((text) => hasDelta(path, text));
  return { path, status: response.status, body: reader };
}

/** Reads the streams to their ends, and returns how each ended. */
export async function endKindsOf(streams: readonly OpenStream[]): Promise<readonly string[]> {
  return (await endsOf(streams)).map(({ end }) => end);
}

/** Reads the streams to their ends. */
export function endsOf(streams: readonly OpenStream[]) {
  return Promise.all(
    streams.map(async ({ path, body }) => {
      const { text, cut } = await body.toEndOrCut();
      return { ...endOf(path, text, cut), path, text: textOf(path, text) };
    }),
  );
}
