import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../support/free-port.ts";
import { processesWith } from "../support/processes/processes-with.ts";
import { type Service, START, startService } from "../support/processes/start-service.ts";

/* `svc launch`, with a program in place of each agent that prints its arguments, variables and files, and ends with 7. */

const SVC = join(import.meta.dirname, "../../deploy/svc.mjs");
const AGENT = `#!/bin/sh
echo "in $PWD with $*"
env
folder=$(env | sed -n 's|^[A-Z_]*=\\(/.*/svc-launch-[A-Za-z0-9]*\\).*|\\1|p' | head -1)
echo "folder $folder"
find "$folder" -type f -exec cat {} +
[ -z "$WAITS" ] || exec sleep 100
exit 7
`;
const root = realpathSync(mkdtempSync(join(tmpdir(), "svc-launched-")));
const [bin, home, work] = ["node_modules/.bin", "home", "work"].map((name) => join(root, name)) as [
  string,
  string,
  string,
];
const NAMES = execFileSync("sh", ["-c", `node ${SVC} launch nonsense 2>&1; true`], { encoding: "utf8" })
  .replace(/^.*there are /s, "")
  .trim()
  .split(", ");
let service: Service;
let closed = 0;

beforeAll(async () => {
  for (const folder of [bin, work, join(home, ".config/git")]) mkdirSync(folder, { recursive: true });
  writeFileSync(join(home, ".config/git/config"), "of the user");
  for (const name of NAMES) {
    writeFileSync(join(bin, name), AGENT);
    chmodSync(join(bin, name), 0o755);
  }
  closed = await freePort();
  service = await startService([0, 0, 0], { args: ["--agents", "--model", "scripted"] });
});
afterAll(async () => {
  await service?.stop();
  rmSync(root, { recursive: true, force: true });
});

const PATH = `${bin}:${process.env.PATH}`;

function started(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const { npm_lifecycle_event: _, INIT_CWD: __, ...own } = process.env;
  const child = spawn(process.execPath, args, {
    cwd: work,
    env: { ...own, PATH, HOME: home, ANTHROPIC_AUTH_TOKEN: "of-the-user", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said = { out: "", err: "" };
  child.stdout.on("data", (text) => {
    said.out += text;
  });
  child.stderr.on("data", (text) => {
    said.err += text;
  });
  const ended = once(child, "close").then(([code]) => ({ code: code as number, ...said, folder: folderOf(said.out) }));
  return { child, said, ended };
}

const folderOf = (out: string): string => /^folder (.+)$/m.exec(out)?.[1] ?? "";
const launch = (...args: readonly string[]) => started([SVC, "launch", ...args]).ended;
const at = () => ["--url", service.baseUrl, "--state-dir", service.stateDir];
const filesOfHome = () => execFileSync("find", [home, "-type", "f"], { encoding: "utf8" }).trim();

test("there is an agent for each name that a mistaken one is answered with", () => expect(NAMES).toHaveLength(16));

test.concurrent.each(NAMES)(
  "%s gets address, key and model in a folder of its own, which is gone behind it",
  async (name) => {
    const { code, out, folder } = await launch(name, ...at(), "--model", "svc-kimik3", "--", "do", "it");
    expect(code).toBe(7);
    expect(out).toMatch(new RegExp(`^in ${work} with (.* )?do it$`, "m"));
    for (const part of [service.baseUrl, service.key, "svc-kimik3"]) expect(out).toContain(part);
    expect([folder.includes("svc-launch-"), existsSync(folder)]).toEqual([true, false]);
    expect(filesOfHome()).toBe(join(home, ".config/git/config"));
  },
);

test("variables that lead elsewhere are kept from the agent, and programs that it runs keep their settings", async () => {
  expect((await launch("claude", ...at())).out).not.toContain("ANTHROPIC_AUTH_TOKEN");
  writeFileSync(join(bin, "see-git"), `#!/bin/sh\ncat "$XDG_CONFIG_HOME/git/config"\n`, { mode: 0o755 });
  const seen = await launch("opencode", ...at(), "--program", join(bin, "see-git"));
  expect([seen.code, seen.out]).toEqual([0, "of the user"]);
});

test("as a script of npm it starts the agent in the user's folder, without the variables of npm", async () => {
  const env = { npm_lifecycle_event: "launch", INIT_CWD: home, npm_config_ignore_scripts: "true" };
  const { out } = await started([SVC, "launch", "codex", ...at()], env).ended;
  expect(out).toMatch(new RegExp(`^in ${home} with $`, "m"));
  expect(out).not.toContain("npm_config");
});

test.each([
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const)("%s ends the agent, then its folder", async (signal, code) => {
  const { child, said, ended } = started([SVC, "launch", "codex", ...at()], { WAITS: "1" });
  while (!said.out.includes("base_url")) await once(child.stdout, "data");
  expect(existsSync(folderOf(said.out))).toBe(true);
  child.kill(signal);
  expect((await ended).code).toBe(code);
  expect(existsSync(folderOf(said.out))).toBe(false);
});

describe("what cannot be started ends with a line", () => {
  const key = (value: string) => ["--url", service.baseUrl, "--key", value];
  test.each([
    [2, /no agent cluade \(did you mean claude\?\); there are claude, codex/, () => ["cluade"]],
    [2, /Expected http/, () => ["claude", "--url", "127.0.0.1:8080"]],
    [2, /there is no key: name one by --key or SVC_API_KEY/, () => ["claude", "--url", "http://192.0.2.1"]],
    [
      1,
      /no service at http:\/\/127.0.0.1:\d+ \(ECONNREFUSED\): start one/,
      () => ["claude", "--url", `http://127.0.0.1:${closed}`, "--key", "a"],
    ],
    [1, /refuses the key \(401\): name another/, () => ["claude", ...key("svc_live_no")]],
    [1, /lists no models \(404\): name the service/, () => ["claude", "--url", `${service.baseUrl}/x`, "--key", "a"]],
    [
      2,
      /--model: this key has no svc-qwem \(did you mean svc-qwen\?\)/,
      () => ["claude", ...at(), "--model", "svc-qwem"],
    ],
    [127, /nothing cannot be run: name the agent's program/, () => ["claude", ...at(), "--program", `${root}/nothing`]],
  ])("a launch that cannot be done ends with %i and the line %s", async (code, line, args) => {
    const ended = await launch(...args());
    expect([ended.code, ended.err.trim().split("\n").length, ended.out]).toEqual([code, 1, ""]);
    expect(ended.err).toMatch(line);
  });

  test("with 127 and how to install it", async () => {
    const { err, code } = await started([SVC, "launch", "vibe", ...at()], { PATH: "/nowhere" }).ended;
    expect([code, err]).toEqual([
      127,
      "launch: Mistral Vibe is not in PATH: pip install mistral-vibe, or name its program by --program\n",
    ]);
  });
});

test("--config prints the settings with the key, and starts nothing", async () => {
  const { code, out } = await launch("codex", ...at(), "--config");
  expect(code).toBe(0);
  expect(out).toContain(`# ${home}/.codex/config.toml\n`);
  expect(out).toContain(`model_catalog_json = "${home}/.codex/svc.json"`);
  expect(out).toContain('"slug": "svc-glm53"'.replace(" ", ""));
  expect(out.endsWith(`export SVC_API_KEY=${service.key}\ncodex\n`)).toBe(true);
});

describe("npm start -- --agent", () => {
  const ports = ["--port", "0", "--admin-port", "0", "--engine-port", "0"];
  const start = (state: string, ...args: readonly string[]) =>
    started([START, ...ports, "--state-dir", join(root, state), ...args]).ended;

  test("npm start -- --agent has only the agent on the terminal, ends with it, and leaves no process", async () => {
    const { code, out, err } = await start("state", "--model", "scripted", "--agent", "claude", "--", "do", "it");
    expect([code, err]).toEqual([7, `starting the service; its log is ${join(root, "state/start.log")}\n`]);
    expect(out).toMatch(/^in .* with do it\n/);
    expect(readFileSync(join(root, "state/gateway.yaml"), "utf8")).toContain("systemRole: merge");
    expect(processesWith(join(root, "state"))).toEqual([]);
  });

  test("npm start -- --agent shows why the service does not start", async () => {
    const { code, err } = await start("state-2", "--model", "nowhere.gguf", "--agent", "claude");
    expect(code).toBe(2);
    expect(err).toContain("start: --model: there is no readable file");
  });
});
