import { expect, test } from "vitest";
import { priorityOfHeaders, priorityOfTurn, toolSeconds } from "../../../../gateway/formats/agent-hints.ts";

const own = (value: string) => ({ "x-claude-1p-request-class": value });
const open = (value: string) => ({ "x-claude-code-request-class": value });
const turn = (metadata: object) => ({ "x-codex-turn-metadata": JSON.stringify(metadata) });

test.each<[string, Record<string, string | string[]>, number]>([
  ["nothing", {}, 0],
  ["the main loop of Claude Code", { ...open("main"), ...own("main") }, 0],
  ["a sub-agent that blocks it", { ...open("subagent"), ...own("blocking-subagent") }, -5],
  ["a sub-agent in the background", { ...open("subagent"), ...own("background-task") }, -50],
  ["a title", { ...open("auxiliary"), ...own("summary-extraction") }, -50],
  ["a suggestion for a next prompt", own("followup-generation"), -50],
  ["a compaction, for which the person waits", open("compaction"), 0],
  ["an agent by its type alone", { "x-claude-code-agent-type": "Explore" }, -5],
  ["a class that is not known", open("root"), 0],
  ["a header that came twice", { "x-claude-1p-request-class": ["background-task", "main"] }, 0],
  ["a turn of Codex", turn({ request_kind: "turn", thread_source: "user" }), 0],
  ["its compaction", turn({ request_kind: "compaction" }), 0],
  ["its prewarm", turn({ request_kind: "prewarm" }), -50],
  ["its memory", turn({ request_kind: "memory" }), -50],
  ["a thread's title", turn({ request_kind: "turn", thread_source: "thread_title" }), -50],
  ["a spawned thread", turn({ request_kind: "turn", thread_source: "subagent", subagent_kind: "thread_spawn" }), -5],
  ["a thread with a parent", turn({ request_kind: "turn", parent_thread_id: "t" }), -5],
  ["metadata of other types", turn({ request_kind: 7, thread_source: {}, parent_thread_id: [] }), 0],
  ["metadata that is no object", { "x-codex-turn-metadata": "[1]" }, 0],
  ["metadata that is no JSON", { "x-codex-turn-metadata": "{" }, 0],
])("%s has a priority that is never above the unhinted one", (_, headers, priority) => {
  expect(priorityOfHeaders(headers)).toBe(priority);
});

test("metadata of more than 8,192 characters is not read", () => {
  const metadata = (length: number) => JSON.stringify({ request_kind: "memory", x: "" }).padEnd(length);
  expect([8_192, 8_193].map((length) => priorityOfTurn(metadata(length)))).toEqual([-50, 0]);
});

test.each<[string, readonly number[]]>([
  ["Bash=1191", [1.191]],
  ["Bash=759;Read=12;mcp__a%3Bb=0", [0.759, 0.012, 0]],
  ["Bash=-1;Read=1e3;=5;Bash=12345678901;x", [0.005]],
  [Array.from({ length: 40 }, () => "Bash=1000").join(";"), Array.from({ length: 32 }, () => 1)],
  [`${"x".repeat(4_096)}=1`, []],
  ["", []],
])("the tools of %.40s ran for %j s", (text, seconds) => {
  expect(toolSeconds({ "x-claude-code-prev-tool-durations": text })).toEqual(seconds);
});
