import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../support/free-port.ts";
import { accepts, programOf } from "../references/reference.ts";

/** A running nginx: its process id, its port on this machine, and how to end it. */
export type RunningNginx = {
  readonly pid: number;
  readonly port: number;
  stop(): Promise<void>;
};

/**
 * Starts nginx as a streaming proxy in front of `originPort`, in one process. Resolves to undefined when there is none.
 */
export async function startNginx(originPort: number, folder: string): Promise<RunningNginx | undefined> {
  const program = programOf("nginx");
  if (program === undefined) return undefined;
  const prefix = join(folder, "nginx");
  await mkdir(prefix, { recursive: true });
  const port = await freePort();
  await writeFile(join(prefix, "nginx.conf"), configuration(port, originPort));
  const child = spawn(program, ["-p", prefix, "-c", "nginx.conf", "-e", "error.log"], { stdio: "ignore" });
  // nginx knows nothing of us, so that nobody else would end it.
  const end = () => child.kill();
  process.once("exit", end);
  const ended = once(child, "close");
  try {
    while (!(await accepts(port))) {
      if (child.exitCode !== null) throw new Error(`nginx ended with ${child.exitCode}`);
      await sleep(20);
    }
  } catch (error) {
    end();
    throw error;
  }
  return {
    pid: child.pid ?? 0,
    port,
    async stop() {
      process.off("exit", end);
      end();
      await ended;
    },
  };
}

function configuration(port: number, originPort: number): string {
  const kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return `
daemon off;
master_process off;
pid nginx.pid;
events { worker_connections 8192; }
http {
  ${kinds.map((kind) => `${kind}_temp_path ${kind};`).join("\n  ")}
  access_log off;
  keepalive_requests 1000000;
  upstream origin { server 127.0.0.1:${originPort}; keepalive 64; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`;
}
