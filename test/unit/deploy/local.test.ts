import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ChildFailed } from "../../../deploy/local/child.ts";
import { findModel, ModelError, whyFailed } from "../../../deploy/local/model.ts";
import { faultText, parseOptions, portFaults, wantedPorts } from "../../../deploy/local/options.ts";
import { windowLines } from "../../../deploy/local/start.ts";
import {
  localKey,
  openState,
  stateFolder,
  writeEngineConfig,
  writeGatewayConfig,
} from "../../../deploy/local/state.ts";
import { restartDelayMs } from "../../../deploy/local/supervisor.ts";
import { loadConfig } from "../../../deploy/runtime/config/load-config.ts";
import { engineConfigSchema } from "../../../engine/config.ts";
import { gatewayConfigSchema } from "../../../gateway/config.ts";
import { readKeyFile } from "../../../gateway/keys/key-file.ts";
import { indexKeys } from "../../../gateway/keys/key-index.ts";
import { createKey, keyCommand } from "../../support/processes/key-command.ts";

test("a failed download reports the cause below the library's error", () => {
  const system = Object.assign(new Error("getaddrinfo ENOTFOUND a.host"), { code: "ENOTFOUND" });
  const cause = new TypeError("fetch failed", { cause: system });
  expect(whyFailed(new Error("no such model\nand more", { cause }))).toBe(
    "no such model (there is no network, or no DNS: ENOTFOUND)",
  );
  expect(whyFailed(new Error("no such model"))).toBe("no such model");
  expect(whyFailed("nothing")).toBe("nothing");
  expect(whyFailed(new Error("fetch failed"), system)).toBe("fetch failed (there is no network, or no DNS: ENOTFOUND)");
});

test.each([
  [1_000_000_000, 4],
  [1_000_000_001, 2],
])("a model file of %i bytes has %i slots", async (bytes, slots) => {
  const folder = mkdtempSync(join(tmpdir(), "local-model-"));
  const modelPath = join(folder, "own.gguf");
  try {
    writeFileSync(modelPath, "GGUF");
    truncateSync(modelPath, bytes);
    const found = await findModel(folder, folder, modelPath, undefined);
    expect(found).toEqual({ kind: "llama", modelPath, slots, contextTokens: 32_768 });
    // One core at least: more engines than cores have one thread each.
    expect(await findModel(folder, folder, modelPath, undefined, 1_000)).toEqual({ ...found, threads: 1 });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("an engine that was killed at its start is asked after for its memory", () => {
  expect(new ChildFailed("engine 1", 1, "SIGKILL").message).toContain("too little memory");
  expect(new ChildFailed("engine 1", 2, "exit code 2").message).toBe("engine 1 did not start (exit code 2)");
});

test("engines after the first follow its ports", () => {
  const options = parseOptions(["--engines", "2", "--metrics-port", "9464"]);
  expect(wantedPorts(options)).toEqual([
    { flag: "--port", port: 8080 },
    { flag: "--admin-port", port: 9901 },
    { flag: "--engine-port", port: 50_051 },
    { flag: "--engine-port", port: 50_052 },
    { flag: "--metrics-port", port: 9464 },
    { flag: "--metrics-port", port: 9465 },
  ]);
});

test("callers of other machines, gRPC and pages are let in where the options say so", async () => {
  const options = parseOptions([
    "--host",
    "0.0.0.0",
    "--grpc-port",
    "50050",
    "--allow-origin",
    "http://a:1",
    "app://b",
  ]);
  const host = "0.0.0.0";
  expect(wantedPorts(options).slice(0, 3)).toEqual([
    { flag: "--port", port: 8080, host },
    { flag: "--grpc-port", port: 50_050, host },
    { flag: "--admin-port", port: 9901 },
  ]);
  const state = await openState(mkdtempSync(join(folder, "open-")));
  const file = await writeGatewayConfig(state, options, ["127.0.0.1:50051"], options);
  const { listen, grpc, admin } = loadConfig(gatewayConfigSchema, file, {});
  expect(listen).toMatchObject({ host, port: 8080, allowOrigins: ["http://a:1", "app://b"] });
  expect(grpc).toMatchObject({ host, port: 50_050 });
  expect(admin.host).toBe("127.0.0.1");
});

test("an address of another machine, and all ports that are taken, are found before anything is started", async () => {
  const [first, second] = [createServer().listen(0, "127.0.0.1"), createServer().listen(0, "127.0.0.1")];
  await Promise.all([first, second].map((server) => once(server, "listening")));
  const ports = [first, second].map((server) => Number(Object(server.address()).port));
  try {
    const faults = await portFaults([
      { flag: "--port", port: ports[0] ?? 0 },
      { flag: "--admin-port", port: ports[1] ?? 0 },
      { flag: "--engine-port", port: 0, host: "192.0.2.1" },
    ]);
    expect(faultText(faults, "--state-dir other").split("\n")).toEqual([
      `--port: 127.0.0.1:${ports[0]} is in use by another process`,
      `--admin-port: 127.0.0.1:${ports[1]} is in use by another process`,
      "--engine-port: 192.0.2.1:0 is no address of this machine (--host)",
      "free ones: npm start -- --state-dir other --port 0 --admin-port 0",
    ]);
  } finally {
    for (const server of [first, second]) server.close();
  }
});

test.each([
  ["scripte", " (did you mean scripted?)"],
  ["hf/org/repo", " (did you mean hf:org/repo:quant?)"],
  ["simulator", ""],
  ["org/repo-GGUF", " (did you mean hf:org/repo-GGUF?)"],
  ["org/repo-GGUF:Q4_K_M", " (did you mean hf:org/repo-GGUF:Q4_K_M?)"],
  ["https://host.example/a.gguf", " (a file to download is named hf:org/repo:quant)"],
  ["models/a.gguf", ""],
  ["./model.gguf", ""],
])("the model %s has no file%s", async (model, hint) => {
  const message = `--model: there is no readable file at ${resolve(model)}${hint}`;
  await expect(findModel(folder, folder, model, undefined)).rejects.toThrow(new ModelError(message));
});

test("the window of a model is shown with the command for agents, unless none fits it", () => {
  expect(windowLines(32_768, " --url http://127.0.0.1:1")).toContain("claude --url http://127.0.0.1:1 ");
  expect(windowLines(4_096, "")).toBe(
    "Window    4096 tokens, `context_length` of GET /v1/models: too small for coding agents",
  );
});

test.each([
  [[], "reject", "reject", undefined],
  [["--system-role", "merge"], "merge", "reject", undefined],
  [["--agents"], "merge", "skip", "svc-glm53"],
] as const)(
  "%j: %s for system messages of Format B, %s for hosted tools, %s for the default model of an agent",
  async (args, systemRole, unsupportedTools, served) => {
    const folder = mkdtempSync(join(tmpdir(), "svc-local-"));
    const state = await openState(folder);
    const file = await writeGatewayConfig(state, parseOptions(args), ["127.0.0.1:1"], { port: 0, adminPort: 0 });
    const config = loadConfig(gatewayConfigSchema, file);
    expect(config.catalog.aliases["claude-opus-5-5"]).toBe(served);
    expect(config).toMatchObject({
      formats: { messages: { systemRole }, responses: { unsupportedTools } },
    });
    rmSync(folder, { recursive: true });
  },
);

test.each([
  [[], "Demonstration model, stands in for GLM 5.3"],
  [["--model", "scripted"], "Scripted answers, stands in for GLM 5.3"],
  [["--model", "models/SmolLM2.gguf"], "SmolLM2, stands in for GLM 5.3"],
])("%j: the models list says which weights answer", async (args, displayName) => {
  const state = await openState(mkdtempSync(join(folder, "names-")));
  const file = await writeGatewayConfig(state, parseOptions(args), ["127.0.0.1:1"], { port: 0, adminPort: 0 });
  expect(loadConfig(gatewayConfigSchema, file).catalog.models[0]).toMatchObject({ id: "svc-glm53", displayName });
});

test("weights have an id of their own, by which those of the catalog reach them, too", async () => {
  const options = parseOptions(["--model", "a/own.gguf", "--model-name", "own-7b", "--agents"]);
  const state = await openState(mkdtempSync(join(folder, "own-")));
  const file = await writeGatewayConfig(state, options, ["127.0.0.1:1"], { port: 0, adminPort: 0 });
  const { catalog, clusters } = loadConfig(gatewayConfigSchema, file);
  expect(catalog.models.map(({ id, displayName }) => [id, displayName])).toEqual([["own-7b", "own"]]);
  expect(catalog.aliases).toMatchObject({ "svc-glm53": "own-7b", "claude-opus-5-5": "own-7b" });
  expect(clusters.map(({ model }) => model)).toEqual(["own-7b"]);
  const engine = await writeEngineConfig(state, options, { kind: "scripted" }, { index: 1, port: 0, metricsPort: 0 });
  expect(loadConfig(engineConfigSchema, engine).models).toEqual(["own-7b"]);
  expect(() => parseOptions(["--model-name", "a/b"])).toThrow("letters, digits");
});

test("any free port stays any free port", () => {
  const options = parseOptions(["--engines", "3", "--admin-port", "0", "--engine-port", "0", "--port", "0"]);
  expect(new Set(wantedPorts(options).map(({ port }) => port))).toEqual(new Set([0]));
});

test.each([
  {
    args: ["--engine-port", "65535", "--engines", "2"],
    says: /--engine-port: the ports that follow it go beyond 65535/,
  },
  { args: ["--port", "9902", "--admin-port", "9902"], says: /--admin-port: 9902 is asked for by --port, too/ },
  {
    args: ["--admin-port", "50052", "--engines", "2"],
    says: /--engine-port: 50052 is asked for by --admin-port, too/,
  },
  { args: ["--gateways", "2"], says: /unknown option '--gateways'/ },
])("$args is refused as usage", ({ args, says }) => {
  expect(() => parseOptions(args)).toThrow(says);
});

test("the delay of a restart doubles for a process that keeps exiting, up to half a minute", () => {
  const delays = [1, 2, 3, 4, 5, 6, 7, 8, 2_000].map(restartDelayMs);
  expect(delays).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
});

const folder = mkdtempSync(join(tmpdir(), "svc-state-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a state folder is created with its parents, for its owner only", async () => {
  const path = join(folder, "a/b/c");
  expect(await stateFolder(path)).toBe(path);
  expect(statSync(path).mode & 0o777).toBe(0o700);
  expect(await stateFolder(path)).toBe(path);
});

test("a folder that cannot be created is reported", async () => {
  writeFileSync(join(folder, "file"), "");
  await expect(stateFolder(join(folder, "file"))).rejects.toThrow("cannot be made (EEXIST)");
  await expect(stateFolder(join(folder, "file/below"))).rejects.toThrow("cannot be made (ENOTDIR)");
});

test("a folder of another user, or writable by one, is refused: it may hold a planted key or engine", async () => {
  const theirs = join(folder, "theirs");
  mkdirSync(theirs, { mode: 0o700 });
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(theirs, 12_345, 12_345);
  // Only root can change the owner of a folder; other users find a folder of root.
  await expect(stateFolder(isRoot ? theirs : "/")).rejects.toThrow("belongs to another user");
  const open = join(folder, "open");
  mkdirSync(open);
  chmodSync(open, 0o770);
  await expect(stateFolder(open)).rejects.toThrow("is writable by other users");
});

// Node's recursive mkdir never ends there.
test.skipIf(process.platform !== "linux")("one on a file system that takes no folders ends in an error", async () => {
  await expect(stateFolder("/proc/svc-state/x")).rejects.toThrow("cannot be made (ENOENT)");
});

test("the local key opens every model and is used again, until it opens less", async () => {
  const state = await openState(mkdtempSync(join(folder, "local-")));
  const issue = () => localKey(state, new AbortController().signal);
  const look = async (key: string) => {
    const stored = await readKeyFile(state.keyFile);
    return stored && indexKeys(stored.set, stored.pepper).look(key, Date.now());
  };
  const key = await issue();
  expect(await look(key)).toMatchObject({ principal: { models: "all", limits: {} } });
  const before = readFileSync(state.keyFile, "utf8");
  expect(await issue()).toBe(key);
  expect(readFileSync(state.keyFile, "utf8")).toBe(before);
  await keyCommand(state.keyFile, "revoke", key.split("_")[2] ?? "");
  const narrow = await createKey(state.keyFile, "--name", "narrow", "--models", "svc-qwen");
  for (const useless of [key, narrow, "", "nonsense\n"]) {
    writeFileSync(state.localKeyFile, useless);
    const fresh = await issue();
    expect(fresh).not.toBe(useless);
    expect(await look(fresh)).toHaveProperty("principal");
  }
});
