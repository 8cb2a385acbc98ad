import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");

const inside = (folder: string, ...rooms: readonly string[]) => rooms.map((room) => folder + room);

/**
 * The rooms of the product, from the outside in: a room may import itself and the rooms after it. A file that is in no
 * folder of the list is a room.
 */
const ROOMS: readonly string[] = [
  ...inside("deploy/", "images/", "docs/", "local/", "local/launch/", "prober/"),
  ...inside("gateway/", "main.ts", "run-gateway.ts", "shared-parts.ts", "server.ts", "drain.ts", "grpc/"),
  ...inside("gateway/http/", "admin/", "try-it/", "page/", "hooks.ts", "websocket/", "answer/", "body/", "access/"),
  ...inside("gateway/http/", "connection/", "record/"),
  ...inside("gateway/", "config.ts", "gone-keys.ts", "lifecycle.ts", "reference/", "translation/"),
  ...inside("gateway/upstream/", "router.ts", "token-counter.ts", "attempt-loop.ts", "local-replies.ts", "prefill/"),
  ...inside("gateway/upstream/", "endpoint-orders.ts", "cluster/", "retry/", "admission/", "call/", "continuation/"),
  ...inside("gateway/upstream/", "request/", "load-balancing/policies/"),
  ...inside(
    "gateway/upstream/",
    "load-balancing/policies/prefix-affinity/",
    "load-balancing/",
    "endpoint/",
    "wire/",
    "discovery/",
  ),
  ...inside("gateway/", "usage/", "overload/", "tracing/", "stats/", "routes.ts", "limits/redis/", "limits/"),
  ...inside("gateway/", "keys/cli/", "keys/tokens/", "keys/redis/", "keys/", "sealing/"),
  ...inside("gateway/formats/", "chat/", "messages/", "responses/", "contract/"),
  ...inside("gateway/", "formats/", "json/", "catalog.ts", "state/", "errors.ts", "outcome.ts"),
  ...inside("engine/", "main.ts", "run-node.ts", "serve-node.ts", "server.ts", "config.ts", "gone-keys.ts", "grpc/"),
  ...inside("engine/", "tracing/", "calls/", "metrics/", "load/", "node/", "backends/scripted/"),
  ...inside("engine/backends/openai-compatible/", "kind.ts", "openai-compatible-backend.ts", "options.ts", "probe/"),
  ...inside("engine/backends/openai-compatible/", "generation/", "prompt/", "request/", "hand-over/", "marks/"),
  ...inside("engine/backends/openai-compatible/", "kv-events/", "watch/", "engines/", "http/"),
  ...inside("engine/backends/llama/", "kind.ts", "llama-backend.ts", "describe.ts", "generation/", "tokens/"),
  ...inside("engine/backends/llama/", "runtime/", "slots/"),
  ...inside("engine/", "backends/", "backend.ts", "prefixes/", "caller-work/"),
  ...inside("engine/grammar/", "output/", "values/", "validation/", "schema/", "expressions/"),
  ...inside("engine/", "profiles/"),
  ...inside("engine/conversation/", "", "renderers/", "history/", "jinja/"),
  ...inside("engine/", "output-parser/", "tool-calls/", "gbnf/", "work-budget.ts"),
  ...inside("engine/", "backends/prefill-speed.ts", "errors.ts"),
  ...inside("deploy/runtime/", "log/", "process/", "grpc/", "metrics/", "tracing/", "threads/", "contract/"),
  ...inside("deploy/runtime/", "queue/", "net/", "config/", "files/", "time/"),
  "proto/gen/",
];

/** Rooms beside each other, none of which imports another of its row. */
const APART: readonly (readonly string[])[] = [
  ["gateway/", "engine/"],
  ["engine/backends/scripted/", "engine/backends/openai-compatible/", "engine/backends/llama/"],
  ["gateway/formats/chat/", "gateway/formats/messages/", "gateway/formats/responses/", "gateway/formats/contract/"],
  inside("gateway/http/", "admin/", "try-it/", "answer/"),
  inside("gateway/upstream/", "admission/", "call/", "discovery/"),
  inside("gateway/upstream/", "load-balancing/", "endpoint/", "discovery/"),
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
const isPackage = (target: string) => !/^(?:gateway|engine|deploy|proto)\/|^node:/.test(target);
const wrong = (imports: readonly Import[], isWrong: (one: Import) => boolean) =>
  imports.filter(isWrong).map(({ file, target }) => `${file} imports ${target}`);

/** Returns the position of a file's room: of several that fit, the longest. Throws for a file without a room. */
function depth(file: string): number {
  const fitting = ROOMS.filter((room) => file.startsWith(room)).sort((one, other) => other.length - one.length);
  if (fitting[0] === undefined) throw new Error(`no room for ${file}`);
  return ROOMS.indexOf(fitting[0]);
}

test("every import of the product goes inwards", () => {
  const own = product.filter(({ target }) => /^(?:gateway|engine|deploy|proto)\//.test(target));
  // The configuration is put together of the settings that stand in the rooms.
  const isSettings = ({ file, target }: Import) => file === "gateway/config.ts" && target.endsWith("-settings.ts");
  expect(wrong(own, (one) => depth(one.target) < depth(one.file) && !isSettings(one))).toEqual([]);
});

test("every room of the list exists", () => {
  expect(ROOMS.filter((room) => !existsSync(join(ROOT, room)))).toEqual([]);
});

const quoted = (text = "") => [...text.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);

/** Rows of the table of rooms on a program's page, `| rooms | what they hold, with the rooms inside of them | libraries |`. */
const described = ["gateway/", "engine/"].flatMap((program) => {
  const page = readFileSync(join(ROOT, program, "README.md"), "utf8");
  return [...page.matchAll(/^\| (`.+) \| (.+) \| (.*)\|$/gm)].map(([, rooms, held, libraries]) => ({
    program,
    ...{ rooms: quoted(rooms), held: quoted(held), libraries: quoted(libraries) },
  }));
});

/** Returns the rooms of the list below a folder, the same order, each by its first name. */
function roomsBelow(folder: string): readonly string[] {
  const below = ROOMS.filter((room) => room.startsWith(folder) && room !== folder);
  return [...new Set(below.map((room) => room.slice(folder.length).replace(/\/.*$/, "/")))];
}

test.each(["gateway/", "engine/"])("the page of %s has all of its rooms in their order", (program) => {
  const rows = described.filter((row) => row.program === program);
  expect(rows.flatMap(({ rooms }) => rooms)).toEqual(roomsBelow(program));
});

test.each(["gateway/http/", "gateway/upstream/", "engine/backends/", "engine/grammar/", "engine/conversation/"])(
  "the page of a program has the rooms of %s in their order",
  (folder) => {
    const row = described.find(({ program, rooms }) => inside(program, ...rooms).includes(folder));
    expect(row?.held).toEqual(roomsBelow(folder));
  },
);

test.each(described)("the page of $program has the libraries of $rooms", ({ program, rooms, libraries }) => {
  const folders = inside(program, ...rooms);
  const packages = product.flatMap(({ file, target }) => (isIn(folders, file) ? [target] : [])).filter(isPackage);
  expect(libraries).toEqual(
    [...new Set(packages.map((name) => name.replace(/^((?:@[^/]+\/)?[^/]+).*$/, "$1")))].sort(),
  );
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
