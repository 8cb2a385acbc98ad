import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { headOf, promptBytes, promptShape } from "../../../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import {
  ImageDetail,
  type Message,
  type Part,
  Role,
  type Tool,
} from "../../../../../proto/gen/svc/inference/v1/messages.ts";

const KEY = Buffer.alloc(32, 1);
const MARK = { ttl: undefined };

const text = (value: string): Part => ({ kind: { $case: "text", value: { text: value } } });
const say = (role: Role, ...parts: readonly (string | Part)[]): Message => ({
  role,
  parts: parts.map((part) => (typeof part === "string" ? text(part) : part)),
});
const system = say(Role.SYSTEM, "Be brief.");
const user = (...parts: readonly (string | Part)[]) => say(Role.USER, ...parts);
const assistant = (...parts: readonly (string | Part)[]) => say(Role.ASSISTANT, ...parts);
const result = (isError: boolean, ...content: Part[]): Part => ({
  kind: { $case: "toolResult", value: { callId: "1", name: "ls", content, isError } },
});
const tool: Tool = { name: "ls", description: "Lists.", parametersJsonSchema: "{}", strict: false, deferred: false };

const shape = (messages: readonly Message[], tools: readonly Tool[] = [], key = KEY) =>
  promptShape({ messages, tools }, key);
const hashes = (messages: readonly Message[], tools: readonly Tool[] = []) =>
  shape(messages, tools).boundaries.map(({ hash }) => hash);

describe("boundaries", () => {
  test("boundaries stand after tools and system part, and after each message", () => {
    expect(hashes([system, user("a"), assistant("b"), user("c")], [tool])).toHaveLength(4);
    expect(hashes([user("a")])).toHaveLength(2);
    expect(hashes([system])).toHaveLength(1);
  });

  test("boundaries have a digest of the order and the lengths of the tools at the first one", () => {
    const other = { ...tool, name: "cat", description: "Shows." };
    const toolsOf = (tools: readonly Tool[], ...messages: readonly Message[]) =>
      shape([...messages, user("a")], tools).boundaries.map(({ tools: digest }) => digest);
    const digests = [toolsOf([]), toolsOf([tool]), toolsOf([tool, other]), toolsOf([other, tool])];
    expect(new Set(digests.map(([first]) => first)).size).toBe(4);
    expect(toolsOf([tool], system)).toEqual(toolsOf([tool]));
    expect(toolsOf([tool])).toEqual([expect.any(String), undefined]);
  });

  test("boundaries of a turn repeat exactly in the next one", () => {
    const turn = [system, user("a")];
    const next = [...turn, assistant("b"), user("c")];
    expect(hashes(next, [tool]).slice(0, 2)).toEqual(hashes(turn, [tool]));
  });

  test.each([1, 20_000, 21_800, 65_000, 200_000])(
    "of a text of %i characters depend on the key, the previous one, the fields and their outline",
    (length) => {
      const value = "\u00e9\u20ac".repeat(length).slice(0, length);
      const [head, first] = shape([user("a", value)]).boundaries;
      const outline = `\0message ${Role.USER} 2 0;text 1;text ${Buffer.byteLength(value)};`;
      const digest = createHash("sha256").update(KEY).update(`${head?.hash}a${value}${outline}`).digest();
      expect(first?.hash).toBe(digest.toString("base64url", 0, 16));
    },
  );

  test("boundaries are not moved by a cache breakpoint that moves", () => {
    const marked = { ...text("a"), cacheBreakpoint: MARK };
    expect(hashes([system, user(marked)])).toEqual(hashes([system, user("a")]));
    expect(hashes([user("a")], [{ ...tool, cacheBreakpoint: MARK }])).toEqual(hashes([user("a")], [tool]));
  });

  test("boundaries mark a caller's breakpoint", () => {
    const marked = { ...text("a"), cacheBreakpoint: MARK };
    expect(shape([system, user(marked), user("b")]).boundaries.map((boundary) => boundary.marked)).toEqual([
      false,
      true,
      false,
    ]);
    expect(shape([user("b")], [{ ...tool, cacheBreakpoint: MARK }]).boundaries[0]?.marked).toBe(true);
  });

  test("boundaries carry the number of bytes before them", () => {
    const bytes = shape([user("a"), user("b".repeat(1_000))]).boundaries.map((boundary) => boundary.bytes);
    expect((bytes[2] ?? 0) - (bytes[1] ?? 0)).toBeGreaterThanOrEqual(1_000);
    expect((bytes[2] ?? 0) - (bytes[1] ?? 0)).toBeLessThan(1_100);
  });

  test("boundaries mark the end of the last turn, where its answer begins", () => {
    expect(shape([system, user("a")]).lastTurn).toBeUndefined();
    expect(shape([system, user("a"), assistant("b"), user("c")]).lastTurn).toBe(1);
    expect(shape([user("a"), assistant("b"), user("c"), assistant("d"), user("e")]).lastTurn).toBe(3);
  });
});

describe("two prompts that differ in one field have no common boundary from there on", () => {
  const call = (argumentsJson: string, callId = "1"): Part => ({
    kind: { $case: "toolCall", value: { callId, name: "ls", argumentsJson } },
  });
  const reasoning = (redacted: boolean, signature = "s"): Part => ({
    kind: { $case: "reasoning", value: { text: "hm", signature: Buffer.from(signature), redacted } },
  });
  const image = (sha: string, detail: ImageDetail = ImageDetail.UNSPECIFIED): Part => ({
    kind: {
      $case: "image",
      value: {
        source: { $case: "data", value: Buffer.from("pixels") },
        mimeType: "image/png",
        detail,
        contentSha256: Buffer.from(sha),
      },
    },
  });
  test.each([
    ["text", user("a"), user("b")],
    ["role", user("a"), assistant("a")],
    ["name", user("a"), { ...user("a"), name: "n" }],
    ["split of the text", user("ab", "c"), user("a", "bc")],
    ["number of parts", user("a", "b"), user("ab")],
    ["exact text of arguments", assistant(call("{}")), assistant(call("{ }"))],
    ["call id", assistant(call("{}", "1")), assistant(call("{}", "2"))],
    ["kind of part", assistant(call("{}")), assistant("{}")],
    ["error flag of a result", user(result(false, text("x"))), user(result(true, text("x")))],
    ["place of a part in or behind a result", user(result(false, text("x"))), user(result(false), "x")],
    ["redaction", assistant(reasoning(true)), assistant(reasoning(false))],
    ["signature", assistant(reasoning(true, "s")), assistant(reasoning(true, "t"))],
    ["image", user(image("one")), user(image("two"))],
    ["image's data where it has no digest", user(image("")), user(image("pixel"))],
    ["detail", user(image("one")), user(image("one", ImageDetail.HIGH))],
  ])("two prompts that differ in one field have no common boundary behind it: %s", (_, one, other) => {
    const [a, b] = [hashes([system, one, user("same")]), hashes([system, other, user("same")])];
    expect(a[0]).toBe(b[0]);
    expect(a[1]).not.toBe(b[1]);
    expect(a[2]).not.toBe(b[2]);
  });

  test.each([
    ["name", { ...tool, name: "rm" }],
    ["description", { ...tool, description: "x" }],
    ["schema", { ...tool, parametersJsonSchema: "{ }" }],
    ["strictness", { ...tool, strict: true }],
  ])("two prompts that differ in one field of a tool have no common boundary: %s", (_, other) => {
    expect(hashes([user("a")], [tool])[0]).not.toBe(hashes([user("a")], [other])[0]);
  });
});

describe("a deferred tool", () => {
  const search = { ...tool, name: "search" };
  const deferred = { ...tool, deferred: true, cacheBreakpoint: { ttl: undefined } };
  const declaration = (...names: string[]): Part => ({ kind: { $case: "toolDeclaration", value: { names } } });
  const turns = (...parts: readonly (string | Part)[]) => [user("a"), assistant("b"), user(...parts), user("c")];

  test("a deferred tool is digested where the first declaration names it, and not before", () => {
    const without = hashes(turns("found"), [search]);
    expect(hashes(turns("found"), [search, deferred])).toEqual(without);
    const declared = hashes(turns("found", declaration(tool.name)), [search, deferred]);
    expect(declared.map((hash, index) => hash === without[index])).toEqual([true, true, true, false, false]);
    const other = hashes(turns("found", declaration(tool.name)), [search, { ...deferred, description: "x" }]);
    expect(declared.map((hash, index) => hash === other[index])).toEqual([true, true, true, false, false]);
  });

  test("a deferred tool counts once, in a result too, and names of other tools not at all", () => {
    const once = user(result(false, declaration(tool.name)));
    const bytes = (...messages: Message[]) => promptBytes(shape(messages, [search, deferred]));
    expect(bytes(once, user(declaration("gone", tool.name, "search"))) - bytes(once, user(declaration()))).toBe(0);
    expect(bytes(once) - bytes(user(result(false, declaration("gone"))))).toBe("ls".length + "Lists.{}".length);
  });

  test("marks no end of a prefix", () => {
    const marks = shape([user("a")], [search, deferred]).boundaries.map(({ marked }) => marked);
    expect(marks).toEqual([false, false]);
  });
});

test("the head of a conversation stays the same, and differs by its first message", () => {
  const first = headOf(shape([system, user("a")]));
  expect(headOf(shape([system, user("a"), assistant("b"), user("c")]))).toBe(first);
  expect(headOf(shape([system, user("b")]))).not.toBe(first);
  expect(headOf(shape([system]))).toBe(hashes([system])[0]);
});
