import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");

/**
 * The top rooms of the product, from the outside in: a room may import itself and the rooms after it. A file that is
 * not in a folder of its program is a room.
 */
const ROOMS: readonly string[] = [
  "deploy/images/",
  "deploy/docs/",
  "deploy/monitoring/",
  "deploy/local/",
  "deploy/prober/",
  ...["gateway/main.ts", "gateway/run-gateway.ts", "gateway/shared-parts.ts", "gateway/server.ts", "gateway/drain.ts"],
  ...["gateway/grpc/", "gateway/http/", "gateway/config.ts", "gateway/gone-keys.ts"],
  ...["gateway/tracing/", "gateway/reference/", "gateway/translation/", "gateway/lifecycle.ts", "gateway/upstream/"],
  ...["gateway/usage/", "gateway/overload/", "gateway/stats/", "gateway/routes.ts"],
  ...["gateway/limits/", "gateway/keys/", "gateway/sealing/", "gateway/formats/", "gateway/json/"],
  ...["gateway/catalog.ts", "gateway/state/", "gateway/errors.ts", "gateway/outcome.ts"],
  ...[
    "engine/main.ts",
    "engine/run-node.ts",
    "engine/serve-node.ts",
    "engine/server.ts",
    "engine/config.ts",
    "engine/gone-keys.ts",
  ],
  ...["engine/grpc/", "engine/tracing/", "engine/calls/", "engine/metrics/", "engine/load/", "engine/node/"],
  ...["engine/backends/scripted/", "engine/backends/openai-compatible/", "engine/backends/llama/"],
  ...["engine/backends/", "engine/backend.ts", "engine/prefixes/"],
  ...["engine/caller-work/", "engine/grammar/", "engine/profiles/", "engine/conversation/", "engine/output-parser/"],
  ...[
    "engine/tool-calls/",
    "engine/gbnf/",
    "engine/work-budget.ts",
    "engine/backends/caller-left.ts",
    "engine/backends/prefill-speed.ts",
    "engine/errors.ts",
  ],
  "deploy/runtime/",
  "proto/gen/",
];

/** Rooms beside each other, none of which imports another of its row. */
const APART: readonly (readonly string[])[] = [
  ["gateway/", "engine/"],
  ["engine/backends/scripted/", "engine/backends/openai-compatible/", "engine/backends/llama/"],
  ["gateway/formats/chat/", "gateway/formats/messages/", "gateway/formats/responses/", "gateway/formats/contract/"],
];

/** The parts of the product that tests of a running service may import: those that operators and callers have, too. */
const GIVEN = [
  "gateway/catalog.ts",
  "gateway/keys/",
  "deploy/prober/",
  "deploy/runtime/",
  "deploy/local/child.ts",
  "proto/gen/",
];
const RUNNING = ["test/start/", "test/fault/", "test/browser/", "test/support/processes/", "test/support/edge/"];

const TRACING = ["gateway/tracing/", "engine/tracing/", "deploy/runtime/tracing/"];

/** Libraries that only some rooms of the product may import. */
const ONLY_IN: Readonly<Record<string, readonly string[]>> = {
  jose: ["gateway/keys/tokens/"],
  ioredis: ["gateway/state/"],
  ws: ["gateway/http/websocket/"],
  fastify: ["gateway/http/", "gateway/server.ts"],
  "@grpc/grpc-js": [
    "gateway/upstream/",
    "gateway/grpc/",
    "engine/server.ts",
    "engine/errors.ts",
    "engine/grpc/",
    "deploy/runtime/grpc/",
    "proto/gen/",
    "deploy/docs/",
  ],
  "node-llama-cpp": ["engine/backends/llama/", "deploy/local/"],
  "@msgpack/msgpack": ["engine/backends/openai-compatible/kv-events/"],
  zeromq: ["engine/backends/openai-compatible/kv-events/"],
  "@opentelemetry/api": TRACING,
  "@opentelemetry/exporter-trace-otlp-proto": TRACING,
  "@opentelemetry/resources": TRACING,
  "@opentelemetry/sdk-trace": TRACING,
};

function filesIn(...folders: readonly string[]): string[] {
  return folders
    .flatMap((folder) => readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
}

type Import = { readonly file: string; readonly target: string };

/** Returns the imports of a file: paths from the root of the project, or names of packages. */
function importsOf(file: string): readonly Import[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  const found = text.matchAll(/(?:^|\n)\s*(?:import|export)\s[^;]*?from\s+"([^"]+)"|import\("([^"]+)"\)/g);
  return [...found].map((match) => {
    const name = match[1] ?? match[2] ?? "";
    return { file, target: name.startsWith(".") ? relative(ROOT, resolve(ROOT, dirname(file), name)) : name };
  });
}

const product = filesIn("gateway", "engine", "deploy", "proto/gen").flatMap(importsOf);
const tests = filesIn("test").flatMap(importsOf);
const isIn = (rooms: readonly string[], file: string) => rooms.some((room) => file.startsWith(room));
const wrong = (imports: readonly Import[], isWrong: (one: Import) => boolean) =>
  imports.filter(isWrong).map(({ file, target }) => `${file} imports ${target}`);

/** Returns the position of a file's room: of several that fit, the longest. Throws for a file without a room. */
function depth(file: string): number {
  const room = ROOMS.filter((one) => file.startsWith(one)).reduce(
    (long, one) => (one.length > long.length ? one : long),
    "",
  );
  if (room === "") throw new Error(`no room for ${file}`);
  return ROOMS.indexOf(room);
}

test("every import of the product goes inwards", () => {
  const own = product.filter(({ target }) => /^(?:gateway|engine|deploy|proto)\//.test(target));
  // The configuration is put together of the settings that stand in the rooms.
  const isSettings = ({ file, target }: Import) => file === "gateway/config.ts" && target.endsWith("-settings.ts");
  expect(wrong(own, (one) => depth(one.target) < depth(one.file) && !isSettings(one))).toEqual([]);
});

test.each(APART)("%s import nothing of each other", (...rooms) => {
  const roomOf = (file: string) => rooms.find((room) => file.startsWith(room));
  expect(
    wrong(
      product,
      ({ file, target }) => roomOf(file) !== undefined && (roomOf(target) ?? roomOf(file)) !== roomOf(file),
    ),
  ).toEqual([]);
});

test("libraries with a room of their own are imported nowhere else", () => {
  expect(wrong(product, ({ file, target }) => !isIn(ONLY_IN[target] ?? [""], file))).toEqual([]);
});

test("the product imports no test, and what supports tests none of a lane", () => {
  expect(wrong(product, ({ target }) => target.startsWith("test/"))).toEqual([]);
  const support = tests.filter(({ file }) => file.startsWith("test/support/"));
  const isSupport = ["test/support/", "test/vitest.config.ts"];
  expect(wrong(support, ({ target }) => target.startsWith("test/") && !isIn(isSupport, target))).toEqual([]);
});

test("tests of a running service import of the product what its operators and callers have", () => {
  const running = tests.filter(({ file }) => isIn(RUNNING, file));
  expect(wrong(running, ({ target }) => /^(?:gateway|engine|deploy)\//.test(target) && !isIn(GIVEN, target))).toEqual(
    [],
  );
});

test("no file is a bag of odds and ends", () => {
  const bags = product.filter(({ file }) => /\/(utils?|helpers?|types|common|misc|index)\.ts$/.test(file));
  expect(bags).toEqual([]);
});
