import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { proberConfigSchema } from "../../../deploy/prober/config.ts";
import { Edge } from "../../../deploy/prober/edge.ts";
import { PERIODS, promisesOf } from "../../../deploy/prober/promises.ts";
import { checkConfig, loadConfig } from "../../../deploy/runtime/config/load-config.ts";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { engineConfigSchema } from "../../../engine/config.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";

const ROOT = join(import.meta.dirname, "../../..");
const COMPOSE = join(ROOT, "deploy/compose");
/** Files that a user makes before the start. */
const MADE = ["./secrets", "./secrets/grpc.crt", "./certificates", "./certificates/tls.crt"];

type Service = {
  readonly stop_grace_period?: string;
  readonly volumes?: readonly string[];
  readonly read_only?: boolean;
  readonly ulimits?: { readonly core?: number };
  readonly build?: { readonly context: string; readonly dockerfile: string; readonly target: string };
};

describe("the images", () => {
  const text = readFileSync(join(ROOT, "deploy/images/Containerfile"), "utf8");

  test("the images copy files that exist", () => {
    const sources = [...text.matchAll(/^COPY (?!--from)(.+)$/gm)].flatMap(([, list = ""]) =>
      list.split(" ").slice(0, -1),
    );
    expect(sources.length).toBeGreaterThan(8);
    expect(sources.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  test("the images run the programs themselves, as a user without rights", () => {
    const entries = [...text.matchAll(/^ENTRYPOINT (.+)$/gm)].map(([, entry = ""]) => JSON.parse(entry));
    const program = (...words: readonly string[]) => ["prlimit", "--core=0", "node", ...words];
    const all = ["node_modules/svc/deploy/svc.mjs", "start", "--host", "0.0.0.0", "--state-dir", "/tmp/svc"];
    expect(entries).toEqual([
      ...["gateway", "engine", "engine"].map((name) => program(`dist/${name}/main.js`)),
      program(...all),
    ]);
    const users = text.split(/^FROM /m).flatMap((stage) => stage.match(/^USER .+$/gm)?.at(-1) ?? []);
    expect(users).toEqual(["USER 10001:10001"]);
  });
});

describe("the compose file", () => {
  const { services } = parse(readFileSync(join(COMPOSE, "compose.yaml"), "utf8"), { merge: true }) as {
    readonly services: Readonly<Record<string, Service>>;
  };

  test("the compose file mounts and builds existing files", () => {
    for (const { volumes = [], build } of Object.values(services)) {
      const hosts = volumes.map((mount) => mount.split(":")[0] ?? "").filter((path) => path.startsWith("."));
      expect(hosts.filter((path) => !MADE.includes(path) && !existsSync(join(COMPOSE, path)))).toEqual([]);
      if (!build) continue;
      const file = readFileSync(join(COMPOSE, build.context, build.dockerfile), "utf8");
      expect(file).toMatch(new RegExp(`^FROM .+ AS ${build.target}$`, "m"));
    }
  });

  test("the compose file leaves no core file of any of its containers", () => {
    for (const [name, { ulimits }] of Object.entries(services)) expect([name, ulimits?.core]).toEqual([name, 0]);
  });

  test("the compose file gives programs configurations that they take, and longer to end than they drain", () => {
    const gateway = loadConfig(gatewayConfigSchema, join(COMPOSE, "config/gateway.yaml"));
    const engine = loadConfig(engineConfigSchema, join(COMPOSE, "config/engine.yaml"), { HOSTNAME: "4f2a" });
    expect(engine.nodeId).toBe("4f2a");
    const prober = loadConfig(proberConfigSchema, join(COMPOSE, "config/prober.yaml"));
    // Every promise is proven here.
    expect(promisesOf(prober, { edge: new Edge(prober.edge), clock: systemClock }).map(({ name }) => name)).toEqual(
      Object.keys(PERIODS),
    );
    const graceMs = (name: string) => Number.parseInt(services[name]?.stop_grace_period ?? "0", 10) * 1000;
    expect(graceMs("gateway-1")).toBeGreaterThan(gateway.drainGraceMs + gateway.drainTimeoutMs);
    expect(graceMs("engine")).toBeGreaterThan(engine.drainTimeoutMs);
    // All nodes may be stopped together: none hands its answers over.
    expect(engine.handoverGraceMs).toBe(engine.drainTimeoutMs);
    expect(graceMs("envoy")).toBeGreaterThan(gateway.drainGraceMs + gateway.drainTimeoutMs);
    for (const name of ["gateway-1", "gateway-2", "engine"]) expect(services[name]?.read_only).toBe(true);
  });
});

describe("the unit of the page on services", () => {
  const page = readFileSync(join(ROOT, "deploy/docs/run-as-a-service.md"), "utf8");
  const [, unit = ""] = /^```ini\n([\s\S]+?)^```$/m.exec(page) ?? [];
  const setting = (name: string) => new RegExp(`^${name}=(.+)$`, "m").exec(unit)?.[1];

  test("the unit of the page on services leaves no core file, and longer to end than a gateway drains", () => {
    const { drainGraceMs, drainTimeoutMs } = checkConfig(
      gatewayConfigSchema,
      { keys: { file: "keys.json" }, clusters: [] },
      "test",
    );
    expect(setting("LimitCORE")).toBe("0");
    expect(setting("ExecStart")).toContain("node dist/gateway/main.js --config ");
    expect(Number(setting("TimeoutStopSec")) * 1000).toBeGreaterThan(drainGraceMs + drainTimeoutMs);
  });
});
