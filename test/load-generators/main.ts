import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { projectFolder } from "../../deploy/runtime/files/project-folder.ts";
import { metricSum } from "../support/metric-text.ts";
import { createKey } from "../support/processes/key-command.ts";
import { startService } from "../support/processes/start-service.ts";

/*
 * Runs the commands of gateway/docs/load-tests.md against `npm start`, and compares the report of each generator with the
 * metrics of the gateway. Prints a line for each; the exit code is 1 if one differs by more than 5 %, or does not run.
 */

type Totals = { readonly requests: number; readonly input: number; readonly output: number };

/**
 * What a generator reports; `firstTokenMs` is the mean time to the first token. A percentile is no measure here: that of a
 * histogram lies somewhere in its bucket.
 */
type Reported = Totals & { readonly firstTokenMs: number };

/** A report's JSON: its shape is the generator's. */
// biome-ignore lint/suspicious/noExplicitAny: reports of four programs are read by their own names
type Report = any;

type Generator = {
  /** The heading of its command in the page. */
  readonly heading: string;
  readonly bin: string;
  readonly report: RegExp;
  readonly reported: (report: Report) => Reported;
};

const { SVC_TEST_LOAD_GENERATORS: generators = "", SVC_TEST_ENGINES: engines = "" } = process.env;
const binOf = (name: string) => join(generators, name, "bin");

const GENERATORS: readonly Generator[] = [
  {
    heading: "GuideLLM",
    bin: binOf("guidellm"),
    report: /guidellm\.json$/,
    reported: ({ benchmarks: [{ metrics }] }) => ({
      requests: metrics.request_totals.successful,
      input: metrics.prompt_token_count.successful.total_sum,
      output: metrics.output_token_count.successful.total_sum,
      firstTokenMs: metrics.time_to_first_token_ms.successful.mean,
    }),
  },
  {
    heading: "AIPerf",
    bin: binOf("aiperf"),
    report: /profile_export_aiperf\.json$/,
    reported: (report) => ({
      requests: report.request_count.avg,
      input: report.total_usage_prompt_tokens.avg,
      output: report.total_usage_completion_tokens.avg,
      firstTokenMs: report.time_to_first_token.avg,
    }),
  },
  {
    heading: "vllm bench serve",
    bin: join(projectFolder(), "test/load-generators"),
    report: /vllm\.json$/,
    reported: ({ completed, total_input_tokens, total_output_tokens, mean_ttft_ms }) => ({
      requests: completed,
      input: total_input_tokens,
      output: total_output_tokens,
      firstTokenMs: mean_ttft_ms,
    }),
  },
  {
    heading: "genai-bench",
    bin: binOf("genai-bench"),
    report: /_time_\d+s\.json$/,
    reported: ({ aggregated_metrics: { num_completed_requests, stats } }) => ({
      requests: num_completed_requests,
      input: stats.num_input_tokens.sum,
      output: stats.num_output_tokens.sum,
      firstTokenMs: stats.ttft.mean * 1000,
    }),
  },
];

/** The largest difference of a total, as a share. */
const TOLERANCE = 0.05;
const LIMIT_MS = 300_000;

const page = readFileSync(join(projectFolder(), "gateway/docs/load-tests.md"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "svc-load-"));
const service = await startService();
const key = await createKey(join(service.stateDir, "keys.json"), "--name", "load", "--models", "all", "--load-tests");

async function measured(): Promise<Totals & { readonly firstTokenSeconds: number; readonly firstTokens: number }> {
  const text = await (await fetch(`${service.adminUrl}/stats`)).text();
  const tokens = (type: string) => metricSum(text, "svc_request_tokens_sum", `token_type="${type}"`);
  return {
    requests: metricSum(text, "svc_request_tokens_count", 'token_type="input"'),
    input: tokens("input"),
    output: tokens("output"),
    firstTokenSeconds: metricSum(text, "svc_time_to_first_token_seconds_sum"),
    firstTokens: metricSum(text, "svc_time_to_first_token_seconds_count"),
  };
}

/** Runs the generator's command; returns why it fails, or undefined. */
async function failureOf({ heading, bin, report, reported: read }: Generator): Promise<string | undefined> {
  const command = page.split(`\n## ${heading}\n`)[1]?.match(/```\n([\s\S]*?)```/)?.[1] ?? "exit 1";
  const env = {
    ...process.env,
    ...{ PATH: `${bin}:${process.env.PATH}`, HOME: folder },
    // AIPerf takes no folder as a tokenizer if this is set.
    ...(heading !== "AIPerf" && { HF_HUB_OFFLINE: "1" }),
    ...{ URL: service.baseUrl, MODEL: "svc-qwen", TOKENIZER: join(engines, "demo"), OUT: folder, KEY: key },
  };
  const before = await measured();
  const { status, stdout, stderr } = spawnSync("bash", ["-ec", command], {
    cwd: folder,
    env,
    encoding: "utf8",
    timeout: LIMIT_MS,
  });
  if (status !== 0) return `exit ${status}: ${`${stdout}\n${stderr}`.trim().split("\n").slice(-12).join(" ")}`;
  const file = readdirSync(folder, { recursive: true, encoding: "utf8" }).find((name) => report.test(name));
  if (file === undefined) return `there is no report ${report}`;
  const reported = read(JSON.parse(readFileSync(join(folder, file), "utf8")));
  const after = await measured();
  const ours = {
    requests: after.requests - before.requests,
    input: after.input - before.input,
    output: after.output - before.output,
    firstTokenMs:
      (1000 * (after.firstTokenSeconds - before.firstTokenSeconds)) / (after.firstTokens - before.firstTokens),
  };
  const differs = (["requests", "input", "output", "firstTokenMs"] as const).filter(
    (name) => !(reported[name] > 0 && Math.abs(reported[name] - ours[name]) <= TOLERANCE * ours[name]),
  );
  process.stdout.write(`${heading}: its report ${JSON.stringify(reported)}, our metrics ${JSON.stringify(ours)}\n`);
  return differs.length > 0 ? `differs in ${differs.join(", ")}` : undefined;
}

let failed = 0;
const [, , ...wanted] = process.argv;
for (const generator of GENERATORS) {
  if (wanted.length > 0 && !wanted.includes(generator.heading)) continue;
  const failure = await failureOf(generator);
  if (failure === undefined) continue;
  failed += 1;
  process.stdout.write(`${generator.heading} FAILS: ${failure}\n`);
}
await service.stop();
rmSync(folder, { recursive: true, force: true });
process.exit(failed > 0 ? 1 : 0);
