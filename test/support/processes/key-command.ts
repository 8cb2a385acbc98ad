import { run } from "../../../gateway/keys/cli/main.ts";

/** Runs the command line for keys on a key file; resolves to its output. Throws if it fails. */
export async function keyCommand(file: string, ...args: readonly [string, ...string[]]): Promise<string> {
  let out = "";
  let errors = "";
  const io = {
    stdin: process.stdin,
    out: (text: string) => {
      out += text;
    },
    err: (text: string) => {
      errors += text;
    },
    env: {},
    nowMs: Date.now,
  };
  const [command, ...rest] = args;
  const code = await run([command, "--file", file, ...rest], io);
  if (code !== 0) throw new Error(`keys ${command} ended with ${code}: ${errors}`);
  return out;
}

export async function createKey(file: string, ...options: readonly string[]): Promise<string> {
  return JSON.parse(await keyCommand(file, "create", "--json", ...options)).key;
}
