import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";

/*
 * The commands of the documents, as they stand there. Those of one page run in one shell, one block after the other, in a
 * folder that looks like a clone and in a network of its own, so that the ports of the page are free. A block that a test
 * cannot run says so in a comment before it.
 */

const ROOT = join(import.meta.dirname, "../..");
const DOCUMENTS = execFileSync("git", ["ls-files", "*.md"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");

type Block = { readonly text: string; readonly reason: string | undefined };

/** Returns the blocks of a page that can run: fenced, of the shell (without a language) or of JavaScript. */
function blocksOf(document: string): readonly Block[] {
  const page = readFileSync(join(ROOT, document), "utf8");
  const fences = page.matchAll(
    /(?:^ *<!-- not run: (.+) -->\n)?^( *)```(sh|bash|js)?\n([\s\S]*?)^ *```$|^ *```\w+\n[\s\S]*?^ *```$/gm,
  );
  return [...fences].flatMap(([, reason, , language, text]) => {
    if (text === undefined) return [];
    return [{ text: language === "js" ? `node --input-type=module <<'END'\n${text}END\n` : text, reason }];
  });
}

const PAGES = DOCUMENTS.map((document) => ({ document, blocks: blocksOf(document) })).filter(
  ({ blocks }) => blocks.length > 0,
);

/** Matches a block that ends in a server of ours, which runs until the end of the page. */
const SERVER = /(?:^|&& )npm (?:start|run (?:gateway|engine))\b(?!.*--check-config).*\n$/;

/** What the outputs of a page's blocks hold: an error in JSON is no failure of `curl`. */
const SHOWN: Readonly<Record<string, readonly RegExp[]>> = {
  "README.md": [/1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12/, /"type":"message","role":"assistant"/, /response\.completed/],
  "deploy/docs/operate.md": [/"id":"svc-qwen"/, /finished/],
  "gateway/docs/agents.md": [/"slug":"svc-glm53"/],
  "gateway/docs/api.md": [/^\["model","messages"\]$/m, /"description": "The most tokens of the answer/, /"role": "/],
  "proto/README.md": [/^1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12$/m],
  "gateway/docs/keys.md": [/svc-qwen/, /seals\n[\s\S]*opens/],
};

/** The programs of the documents that a machine may lack. */
const TOOLS = ["curl", "jq"];

const HAS_NETWORK_NAMESPACES = spawnSync("unshare", ["-rn", "true"]).status === 0;

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0).reverse()) close();
});

/** Returns a folder with links to all that a clone has, so that what commands write stays in the folder. */
function cloneOfLinks(): string {
  const folder = mkdtempSync(join(tmpdir(), "svc-pages-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of readdirSync(ROOT))
    if (!/^\.(?:svc|git)$/.test(name)) symlinkSync(join(ROOT, name), join(folder, name));
  const npm = execFileSync("which", ["npm"], { encoding: "utf8" }).trim();
  mkdirSync(join(folder, ".bin"));
  // The packages are installed: `npm ci` would take them away from other tests.
  writeFileSync(join(folder, ".bin/npm"), `#!/bin/sh\n[ "$1" = ci ] && exit 0\nexec ${npm} "$@"\n`);
  chmodSync(join(folder, ".bin/npm"), 0o755);
  return folder;
}

/** Returns a script of a page's blocks: it ends with the first that fails. Outputs are in files of their numbers. */
function scriptOf(blocks: readonly Block[]): string {
  const parts = blocks.map(({ text }, index) => {
    if (!SERVER.test(text)) return `{\n${text}} > .out-${index} 2>&1`;
    return [
      `{\n${text}} > .out-${index} 2>&1 &`,
      `until grep -q '^ready ' .out-${index}; do kill -0 $!; sleep 0.2; done`,
    ].join("\n");
  });
  const network = HAS_NETWORK_NAMESPACES ? ["ip link set lo up"] : [];
  return ["set -euo pipefail", ...network, ...parts, "kill 0"].join("\n");
}

function outputsOf(folder: string): string {
  const files = readdirSync(folder).filter((name) => name.startsWith(".out-"));
  return files.map((name) => `${name}\n${readFileSync(join(folder, name), "utf8")}`).join("\n");
}

describe("the shell blocks of the documents", () => {
  test("the shell blocks of the documents are run, or say why not", () => {
    const run = PAGES.flatMap(({ blocks }) => blocks.filter(({ reason }) => reason === undefined));
    const marked = PAGES.flatMap(({ blocks }) => blocks.flatMap(({ reason }) => reason ?? []));
    expect(run.length).toBeGreaterThan(10);
    expect(marked.filter((reason) => reason.trim().length < 10)).toEqual([]);
    // A page whose commands run says what they show.
    const pages = PAGES.filter(({ blocks }) => blocks.some(({ reason }) => reason === undefined));
    expect(pages.map(({ document }) => document).toSorted()).toEqual(Object.keys(SHOWN).toSorted());
  });

  test.for(Object.entries(SHOWN))(
    "%s: run as they stand",
    { timeout: 180_000 },
    async ([document, shown], { skip }) => {
      const blocks = blocksOf(document).filter(({ reason }) => reason === undefined);
      const absent = TOOLS.filter((tool) => spawnSync("which", [tool]).status !== 0);
      const needed = absent.filter((tool) => blocks.some(({ text }) => new RegExp(`\\b${tool}\\b`).test(text)));
      skip(needed.length > 0, `this machine has no ${needed.join(", ")}`);
      const folder = cloneOfLinks();
      const script = scriptOf(blocks);
      const [program = "bash", ...args] = HAS_NETWORK_NAMESPACES ? ["unshare", "-rn", "bash"] : ["bash"];
      const path = [join(folder, ".bin"), process.env.PATH].join(":");
      const env = { ...process.env, PATH: path, HOME: folder };
      const child: ChildProcess = spawn(program, [...args, "-c", script], {
        cwd: folder,
        env,
        detached: true,
        stdio: "ignore",
      });
      closing.push(() => {
        try {
          if (child.pid) process.kill(-child.pid, "SIGKILL");
        } catch {
          // All of it has ended.
        }
      });
      const [code, signal] = await once(child, "exit");
      const outputs = outputsOf(folder);
      // The script ends itself and its servers by SIGTERM, behind its last block.
      expect([code, signal], outputs).toEqual([null, "SIGTERM"]);
      for (const pattern of shown) expect(outputs).toMatch(pattern);
      expect(outputs).not.toMatch(/"error":\{/);
    },
  );
});
