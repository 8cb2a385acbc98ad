import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");

/** What both programs do alike as processes stands below both: it imports nothing of theirs. */
const RUNTIME = "deploy/runtime/";
const GEN = "proto/gen/";
const GATEWAY_LEAVES = ["gateway/errors.ts", "gateway/outcome.ts", "gateway/catalog.ts", "gateway/hmac.ts"];
const FORMAT = [GEN, ...GATEWAY_LEAVES, "gateway/json/", "gateway/formats/*.ts"];
const ENGINE_LEAVES = [GEN, RUNTIME, "engine/errors.ts"];
/** What a backend stands on. None may know the server above it, nor a backend beside it. */
const BACKEND = [
  ...ENGINE_LEAVES,
  "engine/backend.ts",
  "engine/backends/*.ts",
  "engine/backends/request-plan/",
  "engine/caller-work/",
  "engine/conversation/",
  "engine/grammar/",
  "engine/output-parser/",
  "engine/prefixes/",
  "engine/profiles/",
  "engine/tool-calls/",
];

const LLAMA = "engine/backends/llama/";
const OPENAI_COMPATIBLE = "engine/backends/openai-compatible/";

/** Sub-rooms of a room. */
const within = (room: string, ...names: readonly string[]): string[] => names.map((name) => `${room}${name}/`);

const SUPPORT = "test/support/";
/** What tests of a running service may know of the gateway: what its operators and callers are given. */
const GIVEN = ["gateway/catalog.ts", "gateway/keys/"];

/**
 * What each room may import of ours, first match wins; the direction of imports is one, from the outside in. A room may
 * always import itself, sub-rooms included. Loose files at the top of the gateway, of its HTTP side and of the engine
 * have a row each, as no row covers them: a new one needs its own.
 */
const MAY_IMPORT: readonly (readonly [room: string, allowed: readonly string[]])[] = [
  ["gateway/formats/chat/", FORMAT],
  ["gateway/formats/contract/", FORMAT],
  ["gateway/formats/messages/", FORMAT],
  ["gateway/formats/responses/", FORMAT],
  ["gateway/formats/", [GEN, ...GATEWAY_LEAVES, "gateway/json/"]],
  ["gateway/reference/", [...GATEWAY_LEAVES, "gateway/formats/", "gateway/routes.ts"]],
  ["gateway/json/", GATEWAY_LEAVES],
  ["gateway/upstream/discovery/", [RUNTIME]],
  ["gateway/upstream/queue/", [RUNTIME]],
  ["gateway/upstream/load-balancing/", [GEN, ...GATEWAY_LEAVES, RUNTIME, "gateway/upstream/queue/"]],
  ["gateway/upstream/admission/", [GEN, RUNTIME, "gateway/upstream/queue/", "gateway/upstream/load-balancing/*.ts"]],
  ["gateway/upstream/outlier/", [RUNTIME]],
  [
    "gateway/upstream/retry/",
    [
      ...[...GATEWAY_LEAVES, RUNTIME],
      ...["gateway/stats/continuation-stats.ts", "gateway/upstream/call/grpc-error.ts"],
    ],
  ],
  ["gateway/upstream/continuation/", [GEN]],
  ["gateway/upstream/wire/", [GEN, RUNTIME]],
  ["gateway/upstream/endpoint/", [GEN, RUNTIME, "gateway/upstream/wire/"]],
  ["gateway/upstream/orders/", [RUNTIME, "gateway/state/redis-state.ts"]],
  ["gateway/upstream/health/", [GEN, RUNTIME, "gateway/upstream/endpoint/"]],
  ["gateway/upstream/prefixes/", [GEN, RUNTIME, "gateway/upstream/endpoint/", "gateway/upstream/load-balancing/*.ts"]],
  [
    "gateway/upstream/call/",
    [
      ...[GEN, ...GATEWAY_LEAVES, RUNTIME, "gateway/upstream/endpoint/", "gateway/upstream/outlier/"],
      ...["gateway/upstream/continuation/", "gateway/upstream/prefixes/cache-note.ts", "gateway/upstream/wire/"],
    ],
  ],
  [
    "gateway/upstream/",
    [
      ...[GEN, ...GATEWAY_LEAVES, RUNTIME],
      ...["gateway/stats/continuation-stats.ts", "gateway/stats/upstream-stats.ts"],
    ],
  ],
  ["gateway/keys/cli/", [...GATEWAY_LEAVES, RUNTIME, "gateway/keys/", "gateway/sealing/", "gateway/state/"]],
  ["gateway/keys/tokens/", [RUNTIME, "gateway/keys/*.ts"]],
  ["gateway/keys/redis/", [RUNTIME, "gateway/keys/*.ts", "gateway/state/"]],
  ["gateway/keys/", [...GATEWAY_LEAVES, RUNTIME]],
  ["gateway/state/", [RUNTIME]],
  [
    "gateway/limits/redis/",
    [RUNTIME, "gateway/limits/*.ts", "gateway/state/redis-state.ts", "gateway/state/redis-script.ts"],
  ],
  [
    "gateway/limits/",
    [
      ...[GEN, RUNTIME, "gateway/errors.ts", "gateway/outcome.ts"],
      ...["gateway/keys/principal.ts", "gateway/keys/key-record.ts"],
    ],
  ],
  ["gateway/usage/", [RUNTIME, "gateway/state/redis-state.ts", "gateway/state/redis-script.ts"]],
  ["gateway/overload/", [RUNTIME]],
  ["gateway/sealing/", [RUNTIME, "gateway/formats/format.ts"]],
  ["gateway/tracing/", [RUNTIME]],
  [
    "gateway/translation/",
    [
      ...[GEN, ...GATEWAY_LEAVES, RUNTIME, "gateway/formats/", "gateway/json/", "gateway/limits/input-estimate.ts"],
      ...["gateway/keys/routing-digest.ts", "gateway/routes.ts", "gateway/sealing/"],
      "gateway/upstream/encoded-request.ts",
      "gateway/upstream/prompt-bound.ts",
    ],
  ],
  ["gateway/stats/", [RUNTIME, "gateway/outcome.ts", "gateway/routes.ts"]],
  ["gateway/http/try-it/", [...GATEWAY_LEAVES, RUNTIME, "gateway/routes.ts", "gateway/http/page-files.ts"]],
  [
    "gateway/http/admin/",
    [
      ...[...GATEWAY_LEAVES, RUNTIME, "gateway/keys/", "gateway/limits/", "gateway/overload/", "gateway/stats/"],
      ...["gateway/sealing/", "gateway/upstream/", "gateway/config.ts", "gateway/lifecycle.ts"],
      ...["gateway/usage/", "gateway/http/page-files.ts"],
    ],
  ],
  [
    "gateway/http/record/",
    [
      ...[GEN, ...GATEWAY_LEAVES, RUNTIME, "gateway/keys/", "gateway/limits/", "gateway/stats/", "gateway/tracing/"],
      ...["gateway/upstream/", "gateway/formats/chat/finish-reason.ts", "gateway/routes.ts", "gateway/http/*.ts"],
    ],
  ],
  [
    "gateway/http/connection/",
    [
      ...[...GATEWAY_LEAVES, RUNTIME, "gateway/formats/*.ts", "gateway/routes.ts"],
      ...["gateway/http/record/", "gateway/http/*.ts"],
    ],
  ],
  [
    "gateway/http/access/",
    [
      ...[GEN, ...GATEWAY_LEAVES, RUNTIME, "gateway/keys/", "gateway/limits/", "gateway/overload/", "gateway/stats/"],
      ...["gateway/usage/key-usage.ts", "gateway/http/record/", "gateway/http/*.ts"],
    ],
  ],
  [
    "gateway/http/body/",
    [
      ...[...GATEWAY_LEAVES, RUNTIME, "gateway/json/", "gateway/overload/", "gateway/translation/"],
      ...["gateway/keys/principal.ts", "gateway/http/access/", "gateway/http/record/", "gateway/http/*.ts"],
    ],
  ],
  [
    "gateway/http/answer/",
    [
      ...[GEN, ...GATEWAY_LEAVES, RUNTIME, "gateway/formats/", "gateway/keys/", "gateway/stats/", "gateway/upstream/"],
      ...[
        "gateway/reference/",
        "gateway/http/access/",
        "gateway/http/body/",
        "gateway/http/record/",
        "gateway/http/*.ts",
        "gateway/sealing/",
      ],
    ],
  ],
  ["gateway/grpc/grpc-settings.ts", [RUNTIME]],
  [
    "gateway/grpc/",
    [
      ...[
        GEN,
        ...GATEWAY_LEAVES,
        RUNTIME,
        "gateway/formats/*.ts",
        "gateway/keys/",
        "gateway/limits/",
        "gateway/overload/",
      ],
      ...["gateway/routes.ts", "gateway/translation/", "gateway/upstream/call/"],
      ...within("gateway/http/", "access", "answer", "body", "connection", "record"),
      "gateway/http/*.ts",
    ],
  ],
  [
    "gateway/http/hooks.ts",
    [
      ...["gateway/errors.ts", "gateway/overload/", "gateway/routes.ts"],
      ...within("gateway/http/", "access", "body", "connection"),
      "gateway/http/*.ts",
    ],
  ],
  ["gateway/http/page-files.ts", [RUNTIME]],
  [
    "gateway/http/model-directory.ts",
    [
      ...["gateway/catalog.ts", "gateway/errors.ts", "gateway/keys/"],
      "gateway/upstream/cluster-manager.ts",
      "gateway/upstream/described-model.ts",
    ],
  ],
  [
    "gateway/http/request-context.ts",
    [...[...GATEWAY_LEAVES, "gateway/routes.ts", "gateway/keys/"], "gateway/upstream/load-balancing/routing-hints.ts"],
  ],
  [
    "gateway/config.ts",
    [
      ...[RUNTIME, "gateway/catalog.ts", "gateway/json/", "gateway/overload/", "gateway/upstream/"],
      ...[
        "gateway/http/admin/admin-settings.ts",
        "gateway/state/state-settings.ts",
        "gateway/keys/key-settings.ts",
        "gateway/keys/tokens/token-settings.ts",
        "gateway/grpc/grpc-settings.ts",
      ],
    ],
  ],
  [
    "gateway/drain.ts",
    [RUNTIME, "gateway/config.ts", "gateway/lifecycle.ts", "gateway/grpc/", "gateway/http/connection/"],
  ],
  ["gateway/lifecycle.ts", [RUNTIME]],
  ["gateway/server.ts", ["gateway/", GEN, RUNTIME]],
  ["gateway/main.ts", ["gateway/", RUNTIME]],
  ["gateway/shared-parts.ts", ["gateway/", RUNTIME]],
  ["gateway/errors.ts", ["gateway/outcome.ts"]],
  ["gateway/outcome.ts", []],
  ["gateway/hmac.ts", []],
  ["gateway/routes.ts", ["gateway/errors.ts", "gateway/formats/", "gateway/limits/limiter.ts"]],
  ["gateway/catalog.ts", []],
  ["engine/work-budget.ts", []],
  ["engine/gbnf/", ["engine/work-budget.ts"]],
  ["engine/tool-calls/readers/", [GEN, "engine/work-budget.ts"]],
  ["engine/tool-calls/", ["engine/gbnf/"]],
  ["engine/output-parser/", [GEN, "engine/errors.ts", "engine/tool-calls/"]],
  ["engine/grammar/expressions/", ["engine/work-budget.ts", "engine/gbnf/"]],
  [
    "engine/grammar/schema/",
    ["engine/errors.ts", "engine/work-budget.ts", "engine/gbnf/", "engine/grammar/expressions/"],
  ],
  [
    "engine/grammar/values/",
    [
      "engine/errors.ts",
      "engine/work-budget.ts",
      "engine/gbnf/",
      "engine/grammar/expressions/",
      "engine/grammar/schema/",
      "engine/grammar/validation/",
    ],
  ],
  [
    "engine/grammar/",
    [
      ...[GEN, "engine/errors.ts", "engine/work-budget.ts", "engine/gbnf/"],
      ...["engine/output-parser/markers.ts", "engine/tool-calls/*.ts"],
    ],
  ],
  ["engine/conversation/", ENGINE_LEAVES],
  [
    "engine/profiles/",
    [RUNTIME, "engine/conversation/turn-rules.ts", "engine/output-parser/markers.ts", "engine/tool-calls/*.ts"],
  ],
  [`${LLAMA}runtime/`, [RUNTIME, "engine/errors.ts", `${LLAMA}llama-options.ts`, `${LLAMA}slots/kept-copies.ts`]],
  [`${LLAMA}slots/`, [RUNTIME, "engine/backends/*.ts", "engine/prefixes/"]],
  [`${LLAMA}queue/`, [RUNTIME, "engine/errors.ts", "engine/backends/*.ts"]],
  [
    `${LLAMA}tokens/`,
    [
      ...[...ENGINE_LEAVES, "engine/backends/*.ts", "engine/backends/request-plan/", "engine/caller-work/"],
      ...["engine/conversation/", "engine/output-parser/markers.ts", `${LLAMA}slots/common-length.ts`],
    ],
  ],
  [`${LLAMA}grammar/`, [RUNTIME, "engine/errors.ts", "engine/caller-work/", "engine/grammar/output/"]],
  [`${LLAMA}generation/`, [...BACKEND, ...within(LLAMA, "runtime", "slots", "queue", "tokens", "grammar")]],
  [LLAMA, BACKEND],
  [`${OPENAI_COMPATIBLE}dialect/`, [GEN]],
  [
    `${OPENAI_COMPATIBLE}http/`,
    [RUNTIME, "engine/errors.ts", "engine/backends/*.ts", "engine/tool-calls/readers/json-scanner.ts"],
  ],
  [
    `${OPENAI_COMPATIBLE}request/`,
    [
      ...[...ENGINE_LEAVES, "engine/backends/request-plan/", "engine/conversation/", "engine/profiles/"],
      "engine/grammar/validation/compiled-schemas.ts",
      ...within(OPENAI_COMPATIBLE, "dialect", "http", "marks"),
    ],
  ],
  [
    `${OPENAI_COMPATIBLE}marks/`,
    [...["engine/conversation/control-tokens.ts", "engine/profiles/"], ...within(OPENAI_COMPATIBLE, "dialect", "http")],
  ],
  [
    `${OPENAI_COMPATIBLE}answer/`,
    [
      ...[GEN, "engine/errors.ts", "engine/output-parser/", "engine/tool-calls/readers/"],
      ...within(OPENAI_COMPATIBLE, "http", "marks"),
    ],
  ],
  [
    `${OPENAI_COMPATIBLE}watch/`,
    [
      ...[RUNTIME, "engine/backend.ts", "engine/errors.ts", "engine/profiles/"],
      ...within(OPENAI_COMPATIBLE, "dialect", "http"),
    ],
  ],
  [
    `${OPENAI_COMPATIBLE}generation/`,
    [...BACKEND, ...within(OPENAI_COMPATIBLE, "answer", "dialect", "http", "kv-events", "request", "watch")],
  ],
  [
    `${OPENAI_COMPATIBLE}kv-events/`,
    [
      ...[...ENGINE_LEAVES, "engine/backends/*.ts", "engine/prefixes/"],
      ...within(OPENAI_COMPATIBLE, "dialect", "http", "request"),
    ],
  ],
  [
    `${OPENAI_COMPATIBLE}probe/`,
    [
      ...[GEN, "engine/errors.ts", "engine/profiles/", "engine/conversation/turn-rules.ts"],
      ...within(OPENAI_COMPATIBLE, "dialect", "generation", "http", "request"),
    ],
  ],
  [OPENAI_COMPATIBLE, BACKEND],
  ["engine/backends/simulator/", BACKEND],
  ["engine/backends/scripted/", BACKEND],
  ["engine/backends/request-plan/", [...ENGINE_LEAVES, "engine/profiles/"]],
  ["engine/backends/", [...ENGINE_LEAVES, "engine/backend.ts", "engine/caller-work/", "engine/work-budget.ts"]],
  ["engine/backend-kinds.ts", ["engine/backends/"]],
  [
    "engine/caller-work/",
    [
      ...[...ENGINE_LEAVES, "engine/backends/caller-left.ts", "engine/conversation/", "engine/grammar/"],
      "engine/tool-calls/",
    ],
  ],
  ["engine/prefixes/", ENGINE_LEAVES],
  ["engine/node/", [...ENGINE_LEAVES, "engine/backend.ts"]],
  ["engine/load/", [...ENGINE_LEAVES, "engine/backend.ts"]],
  [
    "engine/calls/",
    [
      ...ENGINE_LEAVES,
      "engine/backend.ts",
      "engine/backends/stream-events.ts",
      "engine/caller-work/",
      "engine/metrics/engine-metrics.ts",
      "engine/node/",
      "engine/grammar/validation/",
    ],
  ],
  ["engine/grpc/", [...ENGINE_LEAVES, "engine/calls/generation-call.ts", "engine/load/load-report.ts"]],
  ["engine/tracing/", [...ENGINE_LEAVES, "engine/calls/generation-log.ts"]],
  [
    "engine/metrics/",
    [RUNTIME, "engine/backend.ts", "engine/errors.ts", "engine/load/throughput.ts", "engine/node/node-state.ts"],
  ],
  ["engine/config.ts", [RUNTIME, "engine/backend-kinds.ts"]],
  ["engine/main.ts", ["engine/", RUNTIME]],
  ["engine/server.ts", ["engine/", GEN, RUNTIME]],
  ["engine/backend.ts", [GEN, "engine/prefixes/held-prefixes.ts"]],
  ["engine/errors.ts", [GEN, RUNTIME]],
  ["deploy/runtime/grpc/", [GEN, "deploy/runtime/files/", "deploy/runtime/time/"]],
  [RUNTIME, []],
  // What describes both programs stands above both.
  ["deploy/docs/reference/", ["engine/grammar/schema/schema-keywords.ts", "gateway/", "deploy/docs/*.ts"]],
  [
    "deploy/docs/",
    [
      ...[
        RUNTIME,
        "gateway/config.ts",
        "gateway/errors.ts",
        "gateway/formats/error-envelope.ts",
        "gateway/outcome.ts",
        "gateway/routes.ts",
      ],
      "gateway/upstream/load-balancing/policies.ts",
      ...["gateway/upstream/call/grpc-error.ts", "gateway/upstream/cluster-manager.ts", "gateway/http/admin/"],
      "deploy/monitoring/dashboards/",
      ...["gateway/keys/key-stats.ts", "gateway/keys/key-store.ts", "gateway/limits/limit-stats.ts"],
      ...["gateway/overload/", "gateway/sealing/sealing-stats.ts", "gateway/stats/", "gateway/usage/key-series.ts"],
      ...["engine/config.ts", "engine/errors.ts", "engine/metrics/", "engine/profiles/profile.ts"],
    ],
  ],
  ["deploy/monitoring/", []],
  ["deploy/images/", [RUNTIME, "deploy/local/child.ts", "gateway/catalog.ts", "gateway/keys/"]],
  ["deploy/local/", [RUNTIME, "gateway/catalog.ts", "gateway/keys/"]],
  [GEN, []],
  // Tests look inwards, and what supports them knows no test.
  ["test/support/checkers/", ["gateway/formats/"]],
  ["test/support/dialects/", [GEN, RUNTIME, "engine/", SUPPORT]],
  [
    "test/support/engine/",
    [GEN, RUNTIME, "engine/", "gateway/catalog.ts", "gateway/upstream/call/event-order.ts", SUPPORT],
  ],
  ["test/support/edge/", ["gateway/keys/", "test/support/processes/", "test/support/*.ts"]],
  ["test/support/events/", [GEN, "engine/backends/scripted/", "gateway/catalog.ts", "gateway/formats/format.ts"]],
  ["test/support/gateway/", [GEN, RUNTIME, "engine/", "gateway/", SUPPORT]],
  ["test/support/http/", []],
  ["test/support/processes/", [RUNTIME, "gateway/keys/", "test/support/http/", "test/support/*.ts"]],
  [
    "test/support/redis/",
    [
      ...[RUNTIME, "gateway/keys/", "gateway/limits/redis/", "gateway/state/"],
      ...["test/support/processes/", "test/support/*.ts"],
    ],
  ],
  ["test/support/requests/", [GEN, "gateway/http/record/", "gateway/routes.ts", "test/support/*.ts"]],
  ["test/support/schemas/", ["test/support/*.ts"]],
  [
    "test/support/templates/",
    [GEN, "engine/conversation/model-history.ts", "test/support/engine/", "test/support/*.ts"],
  ],
  ["test/support/tools/", []],
  [SUPPORT, [RUNTIME, "test/vitest.config.ts"]],
  ["test/vitest.config.ts", ["test/support/no-skips.ts", "test/support/end-reporter.ts"]],
  [
    "test/unit/deploy/",
    [
      ...["deploy/", "gateway/config.ts", "gateway/reference/", "gateway/stats/", "engine/config.ts"],
      ...["engine/metrics/", SUPPORT],
    ],
  ],
  [
    "test/unit/engine/",
    [
      ...[GEN, RUNTIME, "engine/", "gateway/upstream/call/event-order.ts", SUPPORT],
      "deploy/docs/families/family-cases.ts",
    ],
  ],
  ["test/unit/gateway/", [GEN, RUNTIME, "gateway/", "engine/errors.ts", SUPPORT]],
  ["test/unit/test/", ["test/bench/", SUPPORT]],
  ["test/unit/", [SUPPORT]],
  ["test/golden/", [GEN, "gateway/", SUPPORT]],
  ["test/contract/", [GEN, "engine/", ...GIVEN, SUPPORT]],
  ["test/integration/", [GEN, RUNTIME, "engine/", "gateway/", SUPPORT]],
  [
    "test/model/caches/",
    [
      ...[GEN, RUNTIME, "engine/", SUPPORT],
      ...["gateway/upstream/load-balancing/boundary-hashes.ts", "gateway/upstream/prefixes/kept-conversations.ts"],
    ],
  ],
  ["test/model/", [GEN, RUNTIME, "engine/", "test/unit/engine/", SUPPORT]],
  ["test/process/", [GEN, "deploy/", "engine/", "gateway/", SUPPORT]],
  ["test/engines/", [GEN, "engine/", SUPPORT]],
  [
    "test/deploy/",
    [
      ...["deploy/", "gateway/config.ts", "gateway/upstream/endpoint/", "gateway/upstream/wire/", "engine/config.ts"],
      ...["engine/backends/scripted/", "engine/metrics/metrics-server.ts", "engine/profiles/", SUPPORT],
    ],
  ],
  ["test/browser/", [...GIVEN, SUPPORT]],
  ["test/start/", [...GIVEN, RUNTIME, "deploy/local/child.ts", SUPPORT]],
  ["test/fault/", [GEN, ...GIVEN, SUPPORT]],
  [
    "test/bench/schemas/",
    [
      ...[GEN, "engine/errors.ts", "engine/work-budget.ts", "engine/gbnf/", "engine/grammar/", "engine/caller-work/"],
      ...["engine/profiles/", "engine/output-parser/markers.ts", "engine/tool-calls/readers/", "gateway/errors.ts"],
      ...["engine/backends/simulator/", "gateway/formats/json-schema-limits.ts", "gateway/catalog.ts", "gateway/json/"],
      ...[RUNTIME, "gateway/sealing/sealing.ts", "gateway/translation/", SUPPORT, "test/bench/report/"],
    ],
  ],
  [
    "test/bench/llama-bench.ts",
    [
      ...[GEN, "deploy/runtime/queue/", "engine/backends/llama/runtime/", "gateway/upstream/wire/"],
      ...["test/bench/", SUPPORT],
    ],
  ],
  ["test/bench/", [GEN, "deploy/", "gateway/", "engine/backends/scripted/", SUPPORT]],
];

const TRACING = ["gateway/tracing/", "engine/tracing/", "deploy/runtime/tracing/"];

/** Libraries that only some rooms may know. */
const ONLY_IN: Readonly<Record<string, readonly string[]>> = {
  jose: ["gateway/keys/tokens/", "test/integration/access/"],
  ioredis: ["gateway/state/", "test/support/redis/"],
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
  "@huggingface/jinja": ["engine/conversation/jinja/"],
  "@msgpack/msgpack": [`${OPENAI_COMPATIBLE}kv-events/`, "test/support/dialects/", "test/unit/engine/"],
  zeromq: [`${OPENAI_COMPATIBLE}kv-events/`, "test/support/dialects/"],
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

const sources = filesIn("gateway", "engine", "deploy", "proto/gen");
const tests = filesIn("test");

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
  for (const file of [...sources, ...tests]) {
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
