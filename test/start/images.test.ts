import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import { ANSWER_PATHS, bodyFor } from "../support/http/answer-check.ts";
import { createKey } from "../support/processes/key-command.ts";
import { sizeOf } from "../support/size.ts";
import {
  bareFolders,
  builtImages,
  type Installed,
  noImages,
  type Target,
  type Targets,
} from "../support/tools/images.ts";

/*
 * The output of deploy/images: programs that run with only the files that the Containerfile keeps. FULL=1 builds the
 * images, which takes minutes; otherwise the files of its last steps are copied to a bare folder.
 */

const ROOT = join(import.meta.dirname, "../..");
const IMAGES = sizeOf({ quick: 0, promised: 1 }) === 1;
const LOCAL = { host: "127.0.0.1", port: 0 };
const BUILD_MS = 900_000;

/** An address of this machine that is not its loopback's, by which other machines reach it. */
function hostAddress(): string {
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return addresses.find(({ family, internal }) => family === "IPv4" && !internal)?.address ?? "127.0.0.1";
}

const closing: (() => unknown)[] = [];
const pids: number[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  pids.length = 0;
});

/** Makes a folder that the program may read. */
function folderFor({ user }: Installed): string {
  const folder = mkdtempSync(join(tmpdir(), "svc-installed-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  if (user !== undefined) chownSync(folder, user, user);
  return folder;
}

/** Runs a program to its end; resolves to its stdout. */
async function said(installed: Installed, folder: string, ...args: readonly string[]): Promise<string> {
  const { line, cwd } = installed.command(folder, ...args);
  const [program = "", ...rest] = line;
  return (await promisify(execFile)(program, rest, { cwd, env: { ...process.env, HOSTNAME: "node-1" } })).stdout.trim();
}

/** Starts a program with a configuration; resolves to its `ready` fields. */
async function configured(installed: Installed, folder: string, config: object) {
  const file = join(folder, "config.yaml");
  writeFileSync(file, JSON.stringify(config));
  for (const name of installed.user === undefined ? [] : readdirSync(folder))
    chownSync(join(folder, name), installed.user ?? 0, installed.user ?? 0);
  return await started(installed, folder, "--config", file);
}

async function started(
  installed: Installed,
  folder: string,
  ...options: readonly string[]
): Promise<Readonly<Record<string, string>>> {
  const { line, cwd } = installed.command(folder, ...options);
  const [program = "", ...args] = line;
  const child = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  pids.push(child.pid ?? 0);
  const ended = once(child, "close");
  closing.push(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  return await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on("line", (text) => {
      if (text.startsWith("ready ")) resolve(JSON.parse(text.slice("ready ".length)));
    });
    void ended.then(() => reject(new Error(`it ended: ${errors}`)));
  });
}

describe.each(["lies in a bare folder", ...(IMAGES ? ["stands in the images that buildah builds"] : [])])(
  "the service that %s",
  (kind) => {
    const bare = kind.includes("bare");
    const targets: Partial<Targets> = {};
    beforeAll(async () => {
      if (bare || noImages === "") Object.assign(targets, bare ? bareFolders() : await builtImages());
    }, BUILD_MS);
    afterAll(() => targets.remove?.(), BUILD_MS);

    const target = (name: Target): Installed => {
      const installed = targets[name];
      if (!installed) throw new Error(`there is no ${name}`);
      return installed;
    };

    describe.skipIf(!bare && noImages !== "")(`runs${bare || noImages === "" ? "" : ` (${noImages})`}`, () => {
      test.each(["gateway", "engine"] as const)("the %s, with the configuration of deploy/compose", async (name) => {
        const folder = folderFor(target(name));
        cpSync(join(ROOT, `deploy/compose/config/${name}.yaml`), join(folder, `${name}.yaml`));
        expect(await said(target(name), folder, "--version")).toMatch(new RegExp(`^svc-${name} \\d`));
        const checked = ["--check-config", "--config", join(folder, `${name}.yaml`)];
        expect(await said(target(name), folder, ...checked)).toContain("is fine");
      });

      test("a gateway in front of a node, which answers in all formats and has its pages", async () => {
        const backend = { kind: "scripted" };
        const node = { nodeId: "n1", models: ["svc-qwen"], listen: LOCAL, metrics: LOCAL, backend };
        const { address } = await configured(target("engine"), folderFor(target("engine")), node);
        const folder = folderFor(target("gateway"));
        const key = await createKey(join(folder, "keys.json"), "--name", "first", "--models", "all");
        const { baseUrl, adminUrl, grpcAddress } = await configured(target("gateway"), folder, {
          listen: LOCAL,
          admin: LOCAL,
          grpc: { ...LOCAL, reflection: true },
          tryIt: {},
          keys: { file: join(folder, "keys.json") },
          clusters: [{ model: "svc-qwen", endpoints: [{ address }] }],
        });
        await becomes(async () => (await fetch(`${adminUrl}/readyz`)).ok, "the node is healthy");
        // The processes of an image are children of buildah's.
        for (const pid of bare && process.platform === "linux" ? pids : [])
          expect(readFileSync(`/proc/${pid}/limits`, "utf8")).toMatch(/^Max core file size +0 +0 /m);
        for (const path of ANSWER_PATHS) {
          const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
          const body = JSON.stringify(bodyFor(path, "hello"));
          const reply = await fetch(`${baseUrl}${path}`, { method: "POST", headers, body });
          expect([path, reply.status, await reply.text()]).toEqual([path, 200, expect.stringContaining("usage")]);
        }
        expect(grpcAddress).toMatch(/^127\.0\.0\.1:\d+$/);
        for (const url of [baseUrl, adminUrl]) {
          const page = await fetch(`${url}/`, { headers: { accept: "text/html" } });
          expect([page.status, await page.text()]).toEqual([200, expect.stringContaining("<html")]);
        }
      });

      // As a user who may write nothing of the image; a bare folder of it is that of test/start/package.test.ts.
      if (!bare)
        test("all of it with the demonstration model, in one container", async () => {
          const folder = folderFor(target("local"));
          const free = ["--port", "0", "--admin-port", "0", "--engine-port", "0"];
          const { baseUrl, keyFile = "" } = await started(target("local"), folder, ...free, "--state-dir", folder);
          expect(await fetch(`http://${hostAddress()}:${new URL(baseUrl ?? "").port}/health`)).toMatchObject({
            status: 200,
          });
          const headers = { authorization: `Bearer ${readFileSync(keyFile, "utf8").trim()}` };
          const body = { ...bodyFor(ANSWER_PATHS[0], "Hello!"), temperature: 0 };
          const reply = await fetch(`${baseUrl}${ANSWER_PATHS[0]}`, {
            ...{
              method: "POST",
              headers: { ...headers, "content-type": "application/json" },
              body: JSON.stringify(body),
            },
          });
          expect([reply.status, await reply.text()]).toEqual([200, expect.stringContaining("help you")]);
        });
    });
  },
);
