import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectFolder } from "../../deploy/runtime/files/project-folder.ts";
import { metricSum } from "../support/metric-text.ts";
import { createKey } from "../support/processes/key-command.ts";
import { type Service, startService } from "../support/processes/start-service.ts";

/*
 * The commands of gateway/docs/load-tests.md with the generators of PyPI against `npm start`. The report of each equals
 * the metrics of the gateway: requests and tokens of a request always, the mean time to the first token where the machine
 * has nothing else to do (`test/load-generators/run`).
 */

const ROOT = projectFolder();
const BIN = join(process.env.SVC_TEST_LOAD_GENERATORS ?? join(ROOT, ".tools/load-generators"), "bin");
/** Set where nothing else runs on the machine. */
const QUIET = process.env.SVC_TEST_QUIET === "1";
const TOLERANCE = 0.05;
/** Of each command of the page. */
const REQUESTS = 10;
const CONCURRENCY = 2;
const LIMIT_MS = 300_000;

type Totals = { readonly requests: number; readonly input: number; readonly output: number };

/** A report's JSON: its shape is the generator's. */
// biome-ignore lint/suspicious/noExplicitAny: reports of four programs are read by their own names
type Report = any;

type Generator = {
  /** The heading of its command in the page. */
  readonly heading: string;
  readonly report: RegExp;
  /** Whether requests that run when the last one of its count ends are cut and left out of its report. */
  readonly cutsAtItsEnd?: true;
  /** A percentile is no measure here: that of a histogram lies somewhere in its bucket. */
  readonly reported: (report: Report) => Totals & { readonly firstTokenMs: number };
};

const GENERATORS: readonly Generator[] = [
  {
    heading: "GuideLLM",
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
    report: /_time_\d+s\.json$/,
    cutsAtItsEnd: true,
    reported: ({ aggregated_metrics: { num_completed_requests, stats } }) => ({
      requests: num_completed_requests,
      input: stats.num_input_tokens.sum,
      output: stats.num_output_tokens.sum,
      firstTokenMs: stats.ttft.mean * 1000,
    }),
  },
];

const missing = !existsSync(join(BIN, "guidellm"));

describe.skipIf(missing)(`load generators${missing ? ": test/load-generators/run installs them" : ""}`, () => {
  const page = readFileSync(join(ROOT, "gateway/docs/load-tests.md"), "utf8");
  const folder = mkdtempSync(join(tmpdir(), "svc-load-"));
  let service: Service;
  let key = "";

  beforeAll(async () => {
    const demo = ["engine/demo-model/demo.gguf", join(folder, "demo")];
    execFileSync(join(BIN, "python"), [join(ROOT, "test/engines/export-hf.py"), ...demo], { cwd: ROOT });
    service = await startService();
    key = await createKey(join(service.stateDir, "keys.json"), "--name", "load", "--models", "all", "--load-tests");
  });
  afterAll(async () => {
    await service?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function measured() {
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

  test.each(GENERATORS)(
    "$heading reports what the gateway measured",
    {
      timeout: LIMIT_MS,
    },
    async ({ heading, report, cutsAtItsEnd = false, reported: read }) => {
      const command = page.split(`\n## ${heading}\n`)[1]?.match(/```\n([\s\S]*?)```/)?.[1] ?? "exit 1";
      const env = {
        ...process.env,
        ...{ PATH: `${join(ROOT, "test/load-generators")}:${BIN}:${process.env.PATH}`, HOME: folder },
        // AIPerf takes no folder as a tokenizer if this is set.
        ...(heading !== "AIPerf" && { HF_HUB_OFFLINE: "1" }),
        ...{ SVC_TEST_LOAD_GENERATORS: dirname(BIN), URL: service.baseUrl, MODEL: "svc-qwen" },
        ...{ TOKENIZER: join(folder, "demo"), OUT: folder, KEY: key },
      };
      const before = await measured();
      // With what it starts, it ends before its test does.
      await promisify(execFile)("timeout", ["--kill-after=5", "280", "bash", "-ec", command], {
        cwd: folder,
        env,
        maxBuffer: 2 ** 26,
      });
      const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
      const file = files.find((name) => report.test(name));
      expect(file).toBeDefined();
      const reported = read(JSON.parse(readFileSync(join(folder, file ?? ""), "utf8")));
      const after = await measured();
      const ours = {
        requests: after.requests - before.requests,
        input: after.input - before.input,
        output: after.output - before.output,
        firstTokenMs:
          (1000 * (after.firstTokenSeconds - before.firstTokenSeconds)) / (after.firstTokens - before.firstTokens),
      };
      if (QUIET)
        process.stdout.write(`${heading}: its report ${JSON.stringify(reported)}, ours ${JSON.stringify(ours)}\n`);
      expect(reported.requests).toBeGreaterThanOrEqual(REQUESTS);
      const cut = ours.requests - reported.requests;
      expect(cut).toBeGreaterThanOrEqual(0);
      expect(cut).toBeLessThanOrEqual(cutsAtItsEnd ? CONCURRENCY : 0);
      const compare = (name: string, theirs: number, measured: number) =>
        expect(Math.abs(theirs - measured), name).toBeLessThanOrEqual(TOLERANCE * measured);
      // An answer that was cut has its whole prompt and a part of its output.
      compare("input", reported.input / reported.requests, ours.input / ours.requests);
      if (cut === 0) compare("output", reported.output, ours.output);
      if (QUIET) compare("first token", reported.firstTokenMs, ours.firstTokenMs);
    },
  );
});
