import { run } from "../../../gateway/keys/cli/main.ts";

type Given = {
  readonly stdin?: string;
  readonly nowMs?: () => number;
  readonly env?: Readonly<Record<string, string>>;
};

/** Runs the command line for keys; `said` is its output, errors included, in order. */
export async function runKeys(args: readonly string[], { stdin = "", nowMs = Date.now, env = {} }: Given = {}) {
  const output = { out: "", err: "", said: "" };
  const say = (to: "out" | "err") => (text: string) => {
    output[to] += text;
    output.said += text;
  };
  const input = (async function* () {
    yield Buffer.from(stdin);
  })();
  const code = await run(args, { stdin: input, out: say("out"), err: say("err"), env, nowMs });
  return { code, ...output };
}

export async function keyCommand(file: string, ...args: readonly [string, ...string[]]): Promise<string> {
  const [command, ...rest] = args;
  const { code, out, err } = await runKeys([command, "--file", file, ...rest]);
  if (code !== 0) throw new Error(`keys ${command} ended with ${code}: ${err}`);
  return out;
}

/** Makes a key with these options of `keys create`, by default a key without limits for all models. */
export async function createKey(file: string, ...options: readonly string[]): Promise<string> {
  const given = options.length > 0 ? options : ["--name", "local", "--models", "all"];
  return JSON.parse(await keyCommand(file, "create", "--json", ...given)).key;
}
