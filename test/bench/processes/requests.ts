/*
 * Events of the benches contain their write time. The clock is the machine's monotonic one, which all processes share,
 * so that a reader in another process can compute an event's delay.
 */

export const MARK = "@";
const DIGITS = 9;
export const STAMP_LENGTH = MARK.length + DIGITS + 1;

export function nowUs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e6 + nanoseconds / 1e3;
}

export function stamp(timeUs: number): string {
  return `${MARK}${Math.floor(timeUs).toString(36).padStart(DIGITS, "0")};`;
}

/** Returns the time of the stamp at `at`, in monotonic microseconds; undefined if the stamp is cut. */
export function stampedUs(text: string, at: number): number | undefined {
  const digits = text.slice(at + MARK.length, at + STAMP_LENGTH - 1);
  if (text[at + STAMP_LENGTH - 1] !== ";" || !/^[0-9a-z]{9}$/.test(digits)) return undefined;
  return Number.parseInt(digits, 36);
}

/** In a prompt, asks the engine of the bench of turns for a stream of pieces that ends when the caller leaves. */
export const PACED = "paced stream";

/** The events that a request asks the bench engine for, as JSON in its only message. */
export type Directive = {
  readonly events: number;
  /** The rate of this stream; 0 for as fast as the events are read. */
  readonly eventsPerSecond: number;
  readonly eventsPerWrite: number;
  /** The phases over which streams of one rate are spread: many are like random clocks. Default: 8. */
  readonly phases?: number;
};

/** The number of events of an answer that ends only when its caller cancels. */
export const ENDLESS = Number.MAX_SAFE_INTEGER;

export function parseDirective(text: string): Directive {
  const directive = JSON.parse(text) as Directive;
  const { events, eventsPerSecond, eventsPerWrite } = directive;
  if (!(events >= 1 && eventsPerSecond >= 0 && eventsPerWrite >= 1)) throw new RangeError("not a directive");
  return directive;
}

export const BENCH_FORMATS = ["chat", "messages", "responses"] as const;
export type BenchFormat = (typeof BENCH_FORMATS)[number];

const MODEL = "svc-qwen";

const SHAPES: Readonly<Record<BenchFormat, { readonly path: string; body(prompt: string): object }>> = {
  chat: {
    path: "/v1/chat/completions",
    body: (content) => ({ model: MODEL, stream: true, messages: [{ role: "user", content }] }),
  },
  messages: {
    path: "/v1/messages",
    body: (content) => ({ model: MODEL, stream: true, max_tokens: 1_024, messages: [{ role: "user", content }] }),
  },
  responses: {
    path: "/v1/responses",
    body: (input) => ({ model: MODEL, stream: true, input }),
  },
};

/** Returns the format of a path; chat for any other path. */
export function formatOfPath(path: string): BenchFormat {
  return BENCH_FORMATS.find((format) => SHAPES[format].path === path) ?? "chat";
}

export function requestText(format: BenchFormat, key: string, directive: Directive): string {
  const { path, body } = SHAPES[format];
  return withHead(path, key, JSON.stringify(body(JSON.stringify(directive))));
}

function withHead(path: string, key: string, content: string): string {
  return [
    `POST ${path} HTTP/1.1`,
    "host: bench",
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    `content-length: ${content.length}`,
    "",
    content,
  ].join("\r\n");
}

const MESSAGE_BYTES = 1_000;

/** Returns a chat request for an unstreamed answer, with a body of about `bytes` bytes in messages of a kilobyte. */
export function replyRequestText(key: string, bytes: number, tokens: number): string {
  const directive = JSON.stringify({ events: tokens, eventsPerSecond: 0, eventsPerWrite: tokens });
  const padded = Math.max(0, bytes - 200);
  const length = Math.max(1, Math.min(MESSAGE_BYTES, padded));
  const earlier = Array.from({ length: Math.floor(padded / length) }, (_, at) => ({
    role: at % 2 === 0 ? "user" : "assistant",
    content: `${at} ${"lorem ipsum ".repeat(length)}`.slice(0, Math.max(1, length - 40)),
  }));
  const messages = [...earlier, { role: "user", content: directive }];
  return withHead("/v1/chat/completions", key, JSON.stringify({ model: MODEL, messages }));
}
