/** A header of requests or replies, in the documentation. */
export type HeaderFact = {
  /** The name of the header; a final star stands for any suffix. */
  readonly name: string;
  /** The requests or replies that it belongs to. */
  readonly where: string;
  readonly meaning: string;
};

/** The request headers with an effect. Any other is ignored. */
export const REQUEST_HEADERS: readonly HeaderFact[] = [
  { name: "authorization", where: "all", meaning: "`Bearer` and the API key." },
  { name: "x-api-key", where: "all", meaning: "The API key, instead of `authorization`." },
  {
    name: "content-type",
    where: "POST",
    meaning: "`application/json`; a charset can only be `utf-8`. Anything else is 415.",
  },
  {
    name: "content-encoding",
    where: "POST",
    meaning:
      "One of `gzip`, `deflate`, `br`, `zstd` (Node 22.15 and later). Limits count decoded bytes. Another is 415.",
  },
  {
    name: "vendor-version",
    where: "messages, count_tokens",
    meaning: "The version of Format B, a date. Any date is taken and none changes anything. Default: `2023-06-01`.",
  },
  {
    name: "anthropic-version",
    where: "messages, count_tokens",
    meaning: "The same, as official clients send it; `vendor-version` wins.",
  },
  {
    name: "x-session-id",
    where: "generation",
    meaning:
      "Any text that the requests of one session share, so that they meet the same cache; so do `x-session-affinity`, `session-id`, `session_id` and the headers of known agents. A cache key in the body wins.",
  },
  {
    name: "x-claude-1p-request-class",
    where: "generation",
    meaning:
      "Who waits for the answer, as Claude Code says it: background classes let others pass, `blocking-subagent` those of the same owner. `x-claude-code-request-class` and Codex's `x-codex-turn-metadata` mean the same. None puts a request before others.",
  },
  { name: "traceparent", where: "all", meaning: "The W3C trace that the request belongs to; `tracestate` beside it." },
  { name: "expect", where: "POST", meaning: "`100-continue`: the body is invited once key and length are fine." },
];

/** The headers of replies that a client may read. */
export const REPLY_HEADERS: readonly HeaderFact[] = [
  {
    name: "x-request-id",
    where: "all",
    meaning: "The id of the request, `req_…`, by which operators find it. `request-id` is the same.",
  },
  {
    name: "x-svc-cache",
    where: "generation, where the operator has set `cacheHeader`",
    meaning:
      "The prompt in the engine's cache, in tokens: `expected=…, cached=…, lost=…, reason=…`. Reasons: `hit`, `new`, `client_changed`, `rewritten`, `tools_left_out` and `reasoning_lost` (with `message=`, the first message that differs), `evicted`, `slot_taken`, `moved`, `belief_expired`, `node_restarted`, `other_gateway`, `begun_elsewhere`. A stream has it unless its first sign of life came earlier.",
  },
  { name: "request-id", where: "all", meaning: "The same as `x-request-id`, where clients of Format B read it." },
  {
    name: "content-type",
    where: "all with a body",
    meaning: "`application/json; charset=utf-8`, or `text/event-stream; charset=utf-8` for a stream.",
  },
  { name: "cache-control", where: "streams", meaning: "`no-cache, no-transform`." },
  { name: "x-accel-buffering", where: "streams", meaning: "`no`: proxies are to pass events on at once." },
  {
    name: "retry-after",
    where: "429, 503, 529",
    meaning: "The seconds after which to try again, a whole number from 1 to 60.",
  },
  { name: "retry-after-ms", where: "429, 503, 529", meaning: "The same in milliseconds, which SDKs read first." },
  {
    name: "x-should-retry",
    where: "some errors",
    meaning: "`false` where trying again cannot help. Both families of SDKs obey it above their own rules.",
  },
  { name: "www-authenticate", where: "401", meaning: "`Bearer`." },
  { name: "allow", where: "405", meaning: "The methods that the path takes." },
  {
    name: "connection",
    where: "some",
    meaning: "`close` where the service ends the connection, as behind a body that was not read.",
  },
  { name: "x-ratelimit-limit-*", where: "A, keys with limits", meaning: "The limit per minute: `requests`, `tokens`." },
  { name: "x-ratelimit-remaining-*", where: "A, keys with limits", meaning: "The rest of it now." },
  {
    name: "x-ratelimit-reset-*",
    where: "A, keys with limits",
    meaning: "When it is whole again, such as `12ms`, `1.5s`, `6m0s`.",
  },
  {
    name: "anthropic-ratelimit-*-limit",
    where: "B, keys with limits",
    meaning: "The limit per minute: `requests`, `tokens`, `input-tokens`, `output-tokens`.",
  },
  { name: "anthropic-ratelimit-*-remaining", where: "B, keys with limits", meaning: "The rest of it now." },
  {
    name: "anthropic-ratelimit-*-reset",
    where: "B, keys with limits",
    meaning: "When it is whole again, as RFC 3339.",
  },
];
