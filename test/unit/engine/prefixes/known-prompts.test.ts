import { describe, expect, test } from "vitest";
import { KnownPrompts } from "../../../../engine/prefixes/known-prompts.ts";
import { promptShape } from "../../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { baseOf, encodeRequest, messageFor } from "../../../../gateway/upstream/request/encoded-request.ts";
import { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Message, Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { generateRequest } from "../../../support/requests/generate-request.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { sizeOf } from "../../../support/size.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

/** The keys of digests differ by tenant. */
const keyOf = (tenant: string) => Buffer.alloc(32, tenant);
const says = (role: Role, text: string, marked = false): Message => ({
  role,
  name: undefined,
  parts: [{ kind: { $case: "text", value: { text } }, cacheBreakpoint: marked ? { ttl: undefined } : undefined }],
});
const long = (text: string) => text.repeat(20_000 / text.length);

/** A request as a gateway encodes it; `upTo` is the boundary behind which it has messages, or all. */
function sent(messages: readonly Message[], tenant = "a", upTo?: number, salt = "") {
  const request = { ...generateRequest(), tenant, messages, cache: { affinityKey: "", isolationSalt: salt } };
  const { bytes, facts } = encodeRequest({ ...request, cache: { ...request.cache, ttl: undefined } }, keyOf(tenant));
  const base = upTo === undefined ? undefined : baseOf(facts.shape, upTo);
  if (upTo !== undefined && !base) throw new Error("no base");
  return {
    whole: GenerateRequest.decode(messageFor({ bytes }, { resumption: "resumable" })),
    part: GenerateRequest.decode(messageFor({ bytes }, { resumption: "resumable", base })),
  };
}

function prompts(megabytes = 10) {
  const clock = new VirtualClock();
  return { clock, known: new KnownPrompts(clock, megabytes) };
}

const FIRST = [says(Role.SYSTEM, "Be terse."), says(Role.USER, long("one "))];
const NEXT = [...FIRST, says(Role.ASSISTANT, "Yes."), says(Role.USER, "two")];

describe("a request that leaves out messages", () => {
  test("a request that leaves out messages gets them from an earlier one, of its tenant and salt only", () => {
    const { known } = prompts();
    known.take(sent(FIRST).whole);
    const { part, whole } = sent(NEXT, "a", 1);
    expect(part.messages).toHaveLength(2);
    expect(known.take(part)).toEqual(whole);
    expect(() => known.take(sent(NEXT, "b", 1).part)).toThrow(expect.objectContaining({ reason: "PREFIX_UNKNOWN" }));
    expect(() => known.take(sent(NEXT, "a", 1, "salt").part)).toThrow("base of the prompt");
  });

  test("a request that leaves out messages is refused where nothing is kept: with 0 MB, behind a drain, ten minutes later, and beyond the bound", async () => {
    const { part } = sent(NEXT, "a", 1);
    const none = prompts(0).known;
    none.take(sent(FIRST).whole);
    expect(() => none.take(part)).toThrow("base of the prompt");
    const drained = prompts().known;
    drained.take(sent(FIRST).whole);
    drained.clear();
    expect(drained.bytes).toBe(0);
    expect(() => drained.take(part)).toThrow("base of the prompt");
    const { clock, known: aged } = prompts();
    aged.take(sent(FIRST).whole);
    await clock.advance(12 * 60_000);
    expect(() => aged.take(part)).toThrow("base of the prompt");
    const small = prompts(0.1).known;
    small.take(sent(FIRST).whole);
    for (const text of ["x", "y", "z"]) small.take(sent([says(Role.USER, long(text))]).whole);
    expect(small.bytes).toBeLessThanOrEqual(100_000);
    expect(() => small.take(part)).toThrow("base of the prompt");
  });

  test("a request that leaves out messages keeps no breakpoints of the earlier one", () => {
    const { known } = prompts();
    known.take(sent([FIRST[0] as Message, says(Role.USER, long("one "), true)]).whole);
    const { part, whole } = sent(NEXT, "a", 1);
    expect(known.take(part)).toEqual(whole);
  });

  test("a request that leaves out messages is the same as the whole one, over chains, forks and tenants", () => {
    const random = new SeededRandom(5);
    const { known } = prompts(1_000);
    const chains: { readonly tenant: string; readonly messages: readonly Message[] }[] = [
      { tenant: "a", messages: FIRST },
      { tenant: "b", messages: FIRST },
    ];
    for (const { tenant, messages } of chains) known.take(sent(messages, tenant).whole);
    for (let turn = 0; turn < sizeOf({ quick: 300, exhaustive: 3_000 }); turn += 1) {
      const { tenant, messages } = chains[random.below(chains.length)] as (typeof chains)[number];
      const own = Array.from({ length: 1 + random.below(3) }, (_, at) =>
        says(at % 2 === 0 ? Role.ASSISTANT : Role.USER, `${random.next()}`),
      );
      const all = [...messages, ...own];
      const { boundaries } = promptShape({ messages, tools: [] }, keyOf(tenant));
      const { part, whole } = sent(all, tenant, boundaries.length - 1);
      expect(known.take(part)).toEqual(whole);
      if (all.length < 40) chains.push({ tenant, messages: all });
    }
  });
});

test("turns of a conversation are kept once, whether or not they leave messages out", () => {
  const { known } = prompts();
  known.take(sent(FIRST).whole);
  const { bytes } = known;
  for (let turn = 0; turn < 20; turn += 1) {
    const more = Array.from({ length: turn }, (_, at) => says(at % 2 === 0 ? Role.ASSISTANT : Role.USER, "more"));
    known.take(sent([...FIRST, ...more]).whole);
  }
  expect(known.bytes).toBeLessThan(bytes + 20 * 1_000);
});

test("a tenant that fills the memory drops its own prompts", () => {
  const { known } = prompts(0.2);
  known.take(sent(FIRST).whole);
  for (let at = 0; at < 50; at += 1) known.take(sent([says(Role.USER, long(`${at} `))], "b").whole);
  expect(known.bytes).toBeLessThanOrEqual(200_000);
  const { part, whole } = sent(NEXT, "a", 1);
  expect(known.take(part)).toEqual(whole);
});

test("short prompts and prompts without digests are not kept", () => {
  const { known } = prompts();
  known.take(sent([says(Role.USER, "short")]).whole);
  known.take({ ...sent(FIRST).whole, prefixDigests: Buffer.alloc(0) });
  known.take({ ...sent(FIRST).whole, prefixDigests: Buffer.alloc(16) });
  expect(known.bytes).toBe(0);
});
