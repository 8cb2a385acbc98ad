import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { AGENTS, type Agent } from "../../../deploy/local/launch/agents.ts";
import { Installed } from "../installed.ts";
import { contentOf, fileOf, TASK } from "../task.ts";
import { type ClientPlace, FAULTS, runAt, SCRIPT, type SocketFault } from "./faults.ts";
import { isDone, type SocketTask, socketTask, TOOL } from "./node-client.ts";

/*
 * The lane of sockets: `test/agents/run sockets [codex|node|python …] [fault …]`. Real clients of responses over WebSocket
 * do the task of task.ts through Envoy, at each fault of faults.ts. Prints a table: how the task ended, the requests in
 * both logs, and what the user read.
 */

type Ran = { readonly isDone: boolean; readonly said: readonly string[] };

/** Troubles after which an application with an SDK gives up. */
const PATIENCE = 12;

const folder = mkdtempSync(join(tmpdir(), "svc-sockets-"));
const agentsFolder = process.env.SVC_TEST_AGENTS ?? "";
const installed = new Installed(agentsFolder);
const codex = AGENTS.find(({ program }) => program === "codex") as Agent;

/** Warnings of Codex about its home folder, its sandbox and a model that its vendor does not have. */
const OF_THE_PLACE = /PATH aliases|bubblewrap|Model metadata/;

async function runCodex({ baseUrl, key, caFile, model }: ClientPlace): Promise<Ran> {
  const home = mkdtempSync(join(folder, "home-"));
  const work = join(home, "work");
  mkdirSync(work);
  const own: Agent = {
    ...codex,
    files: () => ({}),
    env: () => ({ CODEX_API_KEY: key, CODEX_CA_CERTIFICATE: caFile }),
    task: (task) => {
      const exec = ["exec", "--skip-git-repo-check", "--sandbox", "workspace-write"];
      const set = [`openai_base_url="${baseUrl}"`, `model="${model}"`].flatMap((each) => ["-c", each]);
      return [...exec, ...set, task];
    },
  };
  const place = { baseUrl, key, model, smallModel: model, contextTokens: 262_144 };
  const { output } = await installed.run(own, place, home, "page");
  const wrong = Array.from({ length: SCRIPT.steps }, (_, at) => at + 1).filter((step) => {
    try {
      return readFileSync(join(work, fileOf(step)), "utf8").trim() !== contentOf(step, SCRIPT.tokens).trim();
    } catch {
      return true;
    }
  });
  if (process.env.SVC_AGENTS_KEEP) process.stdout.write(output);
  const lines = stripVTControlCharacters(output).split("\n");
  return {
    isDone: wrong.length === 0,
    said: lines.filter((line) => /^(error|warning)/i.test(line) && !OF_THE_PLACE.test(line)),
  };
}

const ofTask = (task: SocketTask): Ran => ({ isDone: isDone(task, SCRIPT.steps), said: task.troubles });

async function runPython({ baseUrl, key, caFile, model }: ClientPlace): Promise<Ran> {
  const python = join(agentsFolder, "py/openai/bin/python");
  if (!existsSync(python)) throw new Error("openai[realtime] of PyPI is not installed");
  const script = join(import.meta.dirname, "../../../../test/agents/sockets/client.py");
  const env = { BASE_URL: baseUrl, API_KEY: key, SSL_CERT_FILE: caFile };
  const child = spawn(python, [script, TASK, JSON.stringify(TOOL), model, String(PATIENCE)], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  for await (const piece of child.stdout) out += piece;
  return ofTask(JSON.parse(out));
}

const CLIENTS: Readonly<Record<string, (place: ClientPlace) => Promise<Ran>>> = {
  codex: runCodex,
  node: async (place) => ofTask(await socketTask({ ...place, ca: readFileSync(place.caFile), patience: PATIENCE })),
  python: runPython,
};

/** Counts equal words, as `3 × 101`. */
function tally(words: readonly string[]): string {
  return [...new Set(words)].map((word) => `${words.filter((other) => other === word).length} × ${word}`).join(", ");
}

async function cell(name: string, run: (place: ClientPlace) => Promise<Ran>, fault: SocketFault): Promise<string> {
  const { ran, edge, frames } = await runAt(fault, async (place) => {
    const began = performance.now();
    const { isDone, said } = await run(place);
    return { isDone, said, seconds: (performance.now() - began) / 1_000 };
  });
  const refused = fault.refused?.[name === "codex" ? "codex" : "sdk"];
  const isRight = refused ? !ran.isDone && refused.test(ran.said.at(-1) ?? "") : ran.isDone;
  const kinds = frames.map(({ code, detail, socket_end: end }) => (end ? `end ${end}` : `${code} ${detail ?? ""}`));
  return [
    `${isRight ? "pass" : "FAILS"}: ${ran.isDone ? "finishes" : "ends"} in ${ran.seconds.toFixed(1)} s`,
    `edge: ${tally(edge.map(({ method, code }) => `${method} ${code}`))}`,
    `gateways: ${tally(kinds.map((kind) => kind.trim()))}`,
    `reads: ${ran.said.length === 0 ? "nothing" : [...new Set(ran.said)].join(" // ")}`,
  ].join(" | ");
}

const [, , ...wanted] = process.argv;
const faults = wanted.filter((word) => !Object.hasOwn(CLIENTS, word));
const clients = Object.entries(CLIENTS).filter(([name]) => wanted.length === faults.length || wanted.includes(name));
let failed = 0;
try {
  for (const fault of FAULTS) {
    if (faults.length > 0 && !faults.some((word) => fault.name.startsWith(word))) continue;
    for (const [name, run] of clients) {
      const said = await cell(name, run, fault).catch((error: unknown) => `FAILS: ${error}`);
      if (said.startsWith("FAILS")) failed += 1;
      process.stdout.write(`| ${fault.name} | ${name} | ${said}\n`);
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.stdout.write(`\n${failed} cells fail\n`);
process.exit(failed > 0 ? 1 : 0);
