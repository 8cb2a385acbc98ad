import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");

/** What every process of the service does alike: how it logs, ends after an error, follows files, exports traces. */
const PROCESS = "deploy/process/";

/**
 * What each folder may import of ours, first match wins; the direction of imports is one, from the outside in. A folder
 * may always import itself.
 */
const MAY_IMPORT: readonly (readonly [folder: string, allowed: readonly string[]])[] = [
  ["gateway/formats/chat/", ["proto/gen/", "gateway/errors.ts", "gateway/catalog.ts", "gateway/formats/*.ts"]],
  ["gateway/formats/messages/", ["proto/gen/", "gateway/errors.ts", "gateway/catalog.ts", "gateway/formats/*.ts"]],
  ["gateway/formats/responses/", ["proto/gen/", "gateway/errors.ts", "gateway/catalog.ts", "gateway/formats/*.ts"]],
  ["gateway/formats/", ["proto/gen/", "gateway/errors.ts", "gateway/catalog.ts", "gateway/event-loop-turn.ts"]],
  [
    "gateway/upstream/",
    [
      "proto/gen/",
      "gateway/errors.ts",
      "gateway/event-loop-turn.ts",
      "gateway/elapsed.ts",
      "gateway/clock.ts",
      PROCESS,
      "gateway/stats/",
    ],
  ],
  ["gateway/keys/", ["gateway/errors.ts", "gateway/clock.ts", PROCESS, "gateway/catalog.ts"]],
  ["gateway/overload/", ["gateway/clock.ts"]],
  ["gateway/tracing/", [PROCESS]],
  [
    "gateway/stats/",
    [
      "gateway/overload/",
      "gateway/upstream/cluster-manager.ts",
      "gateway/upstream/class-share.ts",
      "gateway/keys/key-store.ts",
    ],
  ],
  ["gateway/http/", ["proto/gen/", "gateway/"]],
  ["gateway/sealing.ts", ["gateway/formats/format.ts"]],
  ["gateway/errors.ts", []],
  ["gateway/event-loop-turn.ts", []],
  ["gateway/elapsed.ts", ["gateway/clock.ts"]],
  ["gateway/clock.ts", []],
  ["gateway/catalog.ts", []],
  ["gateway/config.ts", ["gateway/config/", PROCESS]],
  ["gateway/config/", ["gateway/catalog.ts", "gateway/upstream/"]],
  ["gateway/main.ts", ["gateway/", PROCESS]],
  ["gateway/", ["gateway/", "proto/gen/"]],
  ["engine/output-parser/", ["proto/gen/", "engine/errors.ts"]],
  ["engine/grammar/", ["proto/gen/", "engine/errors.ts", "engine/output-parser/markers.ts"]],
  ["engine/conversation/", ["proto/gen/", "engine/errors.ts", "engine/duration-ms.ts"]],
  ["engine/grpc/", ["proto/gen/", PROCESS, "engine/errors.ts", "engine/generation-call.ts", "engine/load-report.ts"]],
  [
    "engine/tracing/",
    [PROCESS, "engine/config.ts", "engine/errors.ts", "engine/duration-ms.ts", "engine/generation-log.ts"],
  ],
  ["engine/config.ts", [PROCESS]],
  ["engine/main.ts", ["engine/", PROCESS]],
  ["engine/server.ts", ["engine/", "proto/gen/", PROCESS]],
  ["engine/server-tls.ts", ["engine/clock.ts", PROCESS]],
  ["engine/reflection.ts", [PROCESS]],
  ["engine/", ["proto/gen/", "engine/"]],
  [PROCESS, []],
  [
    "deploy/",
    [PROCESS, "gateway/catalog.ts", "gateway/clock.ts", "gateway/keys/", "gateway/limits/", "gateway/workers.ts"],
  ],
  ["proto/gen/", ["proto/gen/"]],
];

const TRACING = ["gateway/tracing/", "engine/tracing/", PROCESS];

/** Libraries that only some rooms may know. */
const ONLY_IN: Readonly<Record<string, readonly string[]>> = {
  fastify: ["gateway/http/", "gateway/server.ts"],
  "@grpc/grpc-js": ["gateway/upstream/", "engine/server.ts", "engine/errors.ts", "engine/grpc/", "proto/gen/"],
  "node-llama-cpp": ["engine/backends/llama/", "deploy/local/"],
  "@huggingface/jinja": ["engine/conversation/"],
  "@opentelemetry/api": TRACING,
  "@opentelemetry/exporter-trace-otlp-proto": TRACING,
  "@opentelemetry/resources": TRACING,
  "@opentelemetry/sdk-trace": TRACING,
};

const sources = ["gateway", "engine", "deploy", "proto/gen"]
  .flatMap((folder) => readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
  .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));

function importsOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  const found = text.matchAll(/(?:^|\n)\s*(?:import|export)\s[^;]*?from\s+"([^"]+)"|import\("([^"]+)"\)/g);
  return [...found].map((match) => match[1] ?? match[2] ?? "");
}

function matches(file: string, pattern: string): boolean {
  if (pattern.endsWith("*.ts")) return dirname(file) === dirname(pattern);
  return pattern.endsWith("/") ? file.startsWith(pattern) : file === pattern;
}

test("every import goes in the one direction that the layout allows", () => {
  const wrong: string[] = [];
  for (const file of sources) {
    const rule = MAY_IMPORT.find(([folder]) => file === folder || file.startsWith(folder));
    if (!rule) throw new Error(`no rule for ${file}`);
    for (const specifier of importsOf(file).filter((name) => name.startsWith("."))) {
      const target = relative(ROOT, resolve(ROOT, dirname(file), specifier));
      const own = rule[0].endsWith("/") && target.startsWith(rule[0]);
      if (!own && !rule[1].some((pattern) => matches(target, pattern))) wrong.push(`${file} imports ${target}`);
    }
  }
  expect(wrong).toEqual([]);
});

test("libraries with a room of their own are imported nowhere else", () => {
  const wrong: string[] = [];
  for (const file of sources)
    for (const specifier of importsOf(file)) {
      const rooms = ONLY_IN[specifier];
      if (rooms && !rooms.some((room) => file.startsWith(room))) wrong.push(`${file} imports ${specifier}`);
    }
  expect(wrong).toEqual([]);
});

test("the gateway and the engine share the contract only", () => {
  const across = sources.flatMap((file) =>
    importsOf(file)
      .filter((specifier) => specifier.startsWith("."))
      .map((specifier) => [file, relative(ROOT, resolve(ROOT, dirname(file), specifier))] as const)
      .filter(
        ([from, to]) =>
          (from.startsWith("gateway/") && to.startsWith("engine/")) ||
          (from.startsWith("engine/") && to.startsWith("gateway/")),
      ),
  );
  expect(across).toEqual([]);
});

test("no file is a bag of odds and ends", () => {
  const bags = sources.filter((file) => /\/(utils?|helpers?|types|common|misc|index)\.ts$/.test(file));
  expect(bags).toEqual([]);
});
