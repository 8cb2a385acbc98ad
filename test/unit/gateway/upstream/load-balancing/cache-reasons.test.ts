import { expect, test } from "vitest";
import type { PromptShape } from "../../../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { CacheReasons } from "../../../../../gateway/upstream/load-balancing/cache-reasons.ts";
import type { EndpointView } from "../../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import {
  type AnnouncedPrefix,
  type AnnouncedPrefixes,
  PrefixIndex,
} from "../../../../../gateway/upstream/load-balancing/prefix-index.ts";

const BYTES = 4_000;
const TOKENS = 1_000;
const MINUTE = 60_000;

/**
 * The prompt of a conversation by the words of its messages, of 1,000 tokens each, the head first; "+" is for twice as
 * many. What stands before a slash in the head are its tools.
 */
function prompt(words: string): PromptShape {
  const messages = words.split(" ");
  let bytes = 0;
  const boundaries = messages.map((word, index) => {
    bytes += word.endsWith("+") ? 2 * BYTES : BYTES;
    const tools = index === 0 ? { tools: word.split("/")[0] || undefined } : {};
    return { hash: messages.slice(0, index + 1).join(" "), bytes, marked: false, ...tools };
  });
  const last = messages.findLastIndex((word) => word.startsWith("a"));
  return { boundaries, lastTurn: last < 0 ? undefined : last - 1 };
}

type View = Pick<EndpointView, "gateways" | "evictedBeforeMs"> & { readonly keptConversations?: number };
type Given = { readonly announced?: AnnouncedPrefixes; readonly viewOf?: (nowMs: number) => View };

class Gateway {
  nowMs = 0;
  readonly lives: Record<string, number | undefined> = { A: 1, B: 1 };
  readonly index: PrefixIndex;
  readonly reasons: CacheReasons;

  constructor({ announced, viewOf }: Given = {}) {
    const get = (address: string) => {
      const startedAtMs = this.lives[address];
      const view = viewOf?.(this.nowMs) ?? { gateways: 0, evictedBeforeMs: undefined };
      return startedAtMs === undefined ? undefined : { keptConversations: 0, ...view, startedAtMs };
    };
    this.index = new PrefixIndex(announced, { get });
    this.reasons = new CacheReasons(this.index);
  }

  /** Sends a prompt, for which the engine then reports so many messages as cached. */
  ask(words: string, address: string, cachedMessages: number, affinityKey = "session", lacksReasoning = false) {
    this.nowMs += 1_000;
    const { nowMs } = this;
    const shape = prompt(words);
    const { tokens = 0, tailTokens = 0 } = this.index.held(shape, nowMs, TOKENS / BYTES).byAddress.get(address) ?? {};
    const sent = this.index.sent(shape, address, { tokensPerByte: TOKENS / BYTES, ttlMs: 5 * MINUTE, nowMs });
    const asked = { shape, affinityKey, lacksReasoning, address, expectedTokens: tokens + tailTokens };
    const inputTokens = TOKENS * shape.boundaries.length;
    const note = this.reasons.explain(asked, inputTokens, TOKENS * cachedMessages, nowMs);
    sent.state = "prefilled";
    return note;
  }

  /**
   * Plays steps: `A head u1 a1 u2: 0 moved lost=2` is a prompt on an endpoint, the messages that its engine reports as
   * cached, and its expected note, with tokens in thousands; `other@A` is one of another session; `+6` are
   * minutes; `A=2` is the start of an endpoint, and `A=` its loss.
   */
  play(story: string): void {
    for (const step of story.split("; ")) {
      const [, address = "", life] = /^([AB])=(\d*)$/.exec(step) ?? [];
      const asked = /^(?:(\w+)@)?([AB]) (.+): ([\d.]+) ?(.*)$/.exec(step);
      if (step.startsWith("+")) this.nowMs += Number(step) * MINUTE;
      else if (life !== undefined) this.lives[address] = life === "" ? undefined : Number(life);
      else if (asked) {
        const [, session, on = "", words = "", cached, said = ""] = asked;
        expect(this.ask(words, on, Number(cached), session), step).toMatchObject(noteOf(said));
      } else throw new Error(`this is no step: ${step}`);
    }
  }
}

/** Returns the part of a note that a step of a story has. */
function noteOf(said: string): object {
  const note: Record<string, string | number> = {};
  for (const word of said.split(" ")) {
    const [name = "", value] = word.split("=");
    if (name === "changed") note.changedMessage = Number(value);
    else if (value !== undefined) note[`${name}Tokens`] = Number(value) * TOKENS;
    else if (name !== "") note.reason = name;
  }
  return note;
}

const of = (gateways: number): Given => ({ viewOf: () => ({ gateways, evictedBeforeMs: undefined }) });
const turns = (count: number) => Array.from({ length: count }, (_, index) => `a${index} u${index}`).join(" ");
const BRANCH = Array.from({ length: 40 }, (_, index) => `x${index}`).join(" ");

const REASONS: readonly (readonly [reason: string, story: string, given?: Given])[] = [
  [
    "none for a first turn, and none for a turn that finds the whole previous turn",
    "A head u1: 0 new expected=0 lost=0; A head u1 a1 u2: 2 hit expected=2 lost=0; other@A head other: 1 hit expected=1",
  ],
  [
    "none for a loss of up to 64 tokens and a hundredth of a long prompt",
    `A head u ${turns(10)}: 0; A head u ${turns(11)}: 21.696 hit lost=0; A head u ${turns(12)}: 23.675 evicted lost=0.325`,
  ],
  [
    "none for a prefix that several endpoints have, each of which is expected to, until it restarts or forgets",
    "one@A head u1: 0; two@B head u2: 0; three@A head u3: 1 hit expected=1; four@B head u4: 1 hit expected=1; B=2; five@A head u5: 1; six@B head u6: 0 expected=0; +6; seven@A head u7: 0 expected=0",
  ],
  [
    "none for a conversation that returns to an endpoint, which is expected to have its earlier state",
    "A head u1 a1 u2: 0; B head u1 a1 u2 a2 u3: 0; A head u1 a1 u2 a2 u3 a3 u4: 4 moved expected=4; B head u1 a1 u2 a2 u3 a3 u4 a4 u5: 6 expected=6",
  ],
  [
    "eviction, if the prompt went to its former endpoint",
    "A head u1 a1 u2: 0; A head u1 a1 u2 a2 u3: 1 evicted expected=4 cached=1 lost=3",
  ],
  [
    "another conversation in its slot, on a node that holds conversations",
    "A head u1 a1 u2: 0; A head u1 a1 u2 a2 u3: 1 slot_taken expected=4 cached=1 lost=3",
    { viewOf: () => ({ gateways: 1, evictedBeforeMs: undefined, keptConversations: 4 }) },
  ],
  [
    "eviction, if another endpoint had it and reports a shorter retention",
    "A head u1: 0; B head u1 a1 u2: 0 moved lost=2; +2; A head u1 a1 u2 a2 u3: 0 evicted lost=4; +2; A head u1 a1 u2 a2 u3 a3 u4: 6 hit",
    { viewOf: (nowMs) => ({ gateways: 1, evictedBeforeMs: nowMs - MINUTE }) },
  ],
  [
    "load, if another endpoint is believed to have it, and age, if it no longer is",
    "A head u1: 0; B head u1 a1 u2: 0 moved lost=2; +6; A head u1 a1 u2 a2 u3: 2 belief_expired lost=2",
  ],
  [
    "a restart, and a node that has left",
    "A head u1: 0; A=2; A head u1 a1 u2: 0 node_restarted expected=0; A=; B head u1 a1 u2 a2 u3: 0 node_restarted lost=4",
  ],
  [
    "the client, which changed a message or sent a summary instead of the history",
    "A head u1 a1 u2 a2 u3: 0; A head u1 a1 x2 a2 u3 a3 u4: 3 client_changed changed=3 lost=3; A head u1 summary: 2 rewritten changed=2",
  ],
  [
    "the client, even if it begins with a summary, or has other tools",
    "A head u1 a1 u2 a2 u3: 0; A head summary: 1 rewritten changed=1; A head summary a3 u4 a4 u5: 2; A tools summary a3 u4 a4 u5 a5 u6: 0 client_changed changed=0 lost=6",
  ],
  ...[["u1", 5] as const, ["u9", 21] as const].map(
    ([changed, at]) =>
      [
        `the client, even for an old change, of message ${at}, behind a prefix that other prompts share`,
        `A head u: 0; A head u ${turns(80)}: 2; A head u ${turns(80).replace(`${changed} `, "x ")} a u: 2 client_changed changed=${at}`,
      ] as const,
  ),
  [
    "the client, even if it returns to an abandoned branch after a long one, and changes it",
    `A head u1 a1 u2 a2 u3 a3 u4: 0; A head u1 ${BRANCH}: 2; A head u1 ${BRANCH} x y: 42; A head u1 a1 u2 other u3 a4 u5: 4 client_changed changed=4 lost=4; A head u1 ${BRANCH} x y z: 2 evicted lost=42`,
  ],
  ...[[1, "rewritten"] as const, [2, "other_gateway"] as const].map(
    ([gateways, reason]) =>
      [
        `${reason}, if the client restarts with other tools and one of ${gateways} gateways has never seen the previous turn`,
        `A head u ${turns(20)}: 0; A side question: 0; A tools+ summary+ again+ a1+ u1+: 0 ${reason}`,
        of(gateways),
      ] as const,
  ),
  [
    "the client, if it leaves out the tools of its conversation",
    "A t/s u1 a1 u2: 0; A /s u1 a1 u2 a2 u3: 0 tools_left_out changed=0 lost=4",
  ],
  [
    "a beginning before this gateway's, if it is alone and has never seen the conversation",
    "other@A head x: 0; A head u1 a1 u2: 1 begun_elsewhere lost=1; third@A system u1 a1 u2: 0 begun_elsewhere lost=2",
    of(1),
  ],
  [
    "not the client, if it begins another conversation or continues an earlier one",
    "A head u1 a1 u2: 0; A head u1 a1 u2 a2 u3: 4; A head u1 x1 u2: 2; B head u1 a1 u2 a2 u3 a3 u4: 0 moved lost=6; A head other question of the user: 1 hit lost=0",
  ],
  [
    "another gateway, if the last turn was never seen here and its endpoint was not found",
    "A head u1 a1 u2 a2 u3: 0 other_gateway lost=4; A head u1 a1 u2 a2 u3 a3 u4 a4 u5: 6 other_gateway lost=2; A head u1 a1 u2 a2 u3 a3 u4 a4 u5 a5 u6 a6 u7: 12 hit",
  ],
  [
    "another gateway, if it served later turns and endpoints do not announce their prefixes",
    "A head u1 a1 u2: 0; A head u1 a1 u2 a2 u3 a3 u4: 0 other_gateway lost=6",
  ],
  ...[[2, "other_gateway"] as const, [1, "client_changed"] as const].flatMap(([gateways, reason]) => [
    [
      `${reason}, if one of ${gateways} gateways finds a message changed in a turn unseen here`,
      `A head u1 a1 u2: 0; A head u1 x1 u2 a2 u3 a3 u4: 2 ${reason}`,
      of(gateways),
    ] as const,
    [
      `the client, if one of ${gateways} gateways finds a message changed in the turn after the last one`,
      "A head u1 a1 u2: 0; A head u1 x1 u2 a2 u3: 2 client_changed",
      of(gateways),
    ] as const,
  ]),
];

for (const [reason, story, given] of REASONS)
  test(`the single reason for a cache miss is ${reason}`, () => new Gateway(given).play(story));

test("the single reason for a cache miss is lost reasoning, whether or not its turn was seen", () => {
  const gateway = new Gateway(of(1));
  const lacking = (words: string, session: string) => gateway.ask(words, "A", 1, session, true).reason;
  gateway.ask("head u1 a1 u2", "A", 0, "one");
  expect(lacking("head u1 x1 u2 a2 u3", "one")).toBe("reasoning_lost");
  expect(lacking("other u1 a1 u2 a2 u3", "two")).toBe("reasoning_lost");
});

test.each([
  ["t1/s1 u1 x1 u2 a2 u3 a3 u4", "messages"],
  ["t2/s1 u1 a1 u2 a2 u3 a3 u4", "tools"],
  ["t2/s2 u1 a1 u2 a2 u3 a3 u4", "tools"],
  ["t1/s2 u1 a1 u2 a2 u3 a3 u4", "system"],
  ["t1/s1 u1 a1 u2 a2 u3 a3 u4", undefined],
])("the change of %s begins in the %s", (words, changedPart) => {
  const gateway = new Gateway();
  gateway.ask("t1/s1 u1 a1 u2 a2 u3", "A", 0);
  expect(gateway.ask(words, "A", 0).changedPart).toBe(changedPart);
});

const holding = (held: Record<string, AnnouncedPrefix>): Given => ({
  announced: {
    holders: (digest: string) => (held[digest] ? [held[digest]] : []),
    fillOf: () => ({ usedTokens: 1, totalTokens: 2 }),
  },
});
const prefix = (address: string, tokens: number, tailTokens = 0) => ({ address, tokens, tailTokens });

test.each<readonly [what: string, given: Given, story: string]>([
  [
    "is expected to have exactly those, their tails included",
    holding({ "head u1": prefix("A", 1_990, 210) }),
    "A head u1: 0; A head u1 a1 u2: 2.2 hit expected=2.2",
  ],
  ...[[3_500, "moved"] as const, [500, "evicted"] as const].map(
    ([tail, reason]) =>
      [
        `has ${reason} the part behind a prefix with a tail of ${tail}`,
        holding({ "head u1": prefix("B", 2_000, tail) }),
        `B head u1 a1 u2 a2 u3: 0; A head u1 a1 u2 a2 u3 a3 u4: 0 ${reason}`,
      ] as const,
  ),
  [
    "was not moved away from if it had lost the prefix on its own",
    holding({}),
    "A head u1: 0; B head u1 a1 u2: 0 evicted lost=2",
  ],
  [
    "was not chosen for a conversation whose prefix another one holds, whichever gateway sent it there",
    holding({ head: prefix("B", 1_000) }),
    "A head u1: 0 moved lost=1",
  ],
  ...(
    [
      ["head u1 a1 u2", "client_changed"],
      ["head u1 x1", "other_gateway"],
      ["nothing", "other_gateway"],
    ] as const
  ).map(
    ([digest, reason]) =>
      [
        `with '${digest}' shows the origin of a change: ${reason}`,
        { ...holding({ [digest]: prefix("A", 1_000) }), ...of(2) },
        `A head u1 a1 u2: 0; A head u1 x1 u2 a2 u3 a3 u4: 2 ${reason}`,
      ] as const,
  ),
])("an endpoint that announces its prefixes %s", (_what, given, story) => {
  new Gateway(given).play(story);
});

test("the last conversations are remembered, however many come", () => {
  const gateway = new Gateway();
  for (let index = 0; index < 6_000; index += 1) gateway.ask(`head${index} u1`, "A", 0, `session ${index}`);
  expect(gateway.ask("head5999 u1 a1 u2", "A", 0, "session 5999").reason).toBe("evicted");
});
