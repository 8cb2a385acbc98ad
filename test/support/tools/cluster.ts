import { spawn, spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { becomes } from "../becomes.ts";
import { freePort } from "../free-port.ts";
import { CHART, definitions, HELM, type Resource, TOOLS } from "./manifests.ts";

/** A control plane: etcd, an API server with the definitions of custom resources, and the scheduler. */
export class Cluster {
  readonly #folder = mkdtempSync(join(tmpdir(), "svc-cluster-"));
  readonly #closing: (() => Promise<void>)[] = [];

  /** Starts one; its end is `stop`. */
  static async started(): Promise<Cluster> {
    const cluster = new Cluster();
    try {
      await cluster.#start();
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  async #start(): Promise<void> {
    const [store, peers, port] = [await freePort(), await freePort(), await freePort()];
    const file = (name: string, text: string) => {
      writeFileSync(join(this.#folder, name), text);
      return join(this.#folder, name);
    };
    const { privateKey, publicKey } = generateKeyPairSync("rsa", {
      modulusLength: 2048,
      publicKeyEncoding: { type: "spki", format: "pem" },
      privateKeyEncoding: { type: "pkcs8", format: "pem" },
    });
    const url = `http://127.0.0.1:${store}`;
    this.#runs("etcd", "etcd", [
      ...["--data-dir", join(this.#folder, "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url],
      ...["--listen-peer-urls", `http://127.0.0.1:${peers}`],
    ]);
    this.#runs("apiserver", join(TOOLS, "kube-apiserver"), [
      ...[`--etcd-servers=${url}`, `--secure-port=${port}`, "--bind-address=127.0.0.1"],
      ...[`--cert-dir=${join(this.#folder, "certificates")}`, "--service-cluster-ip-range=10.0.0.0/16"],
      ...["--service-account-issuer=https://svc.invalid", `--service-account-key-file=${file("sa.pub", publicKey)}`],
      `--service-account-signing-key-file=${file("sa.key", privateKey)}`,
      ...[
        "--authorization-mode=AlwaysAllow",
        `--token-auth-file=${file("tokens.csv", 'secret,admin,admin,"system:masters"\n')}`,
      ],
      // There are no controllers: no service accounts are made, and no host becomes ready.
      "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    ]);
    const config = {
      ...{ apiVersion: "v1", kind: "Config", "current-context": "test" },
      clusters: [{ name: "test", cluster: { server: `https://127.0.0.1:${port}`, "insecure-skip-tls-verify": true } }],
      users: [{ name: "test", user: { token: "secret" } }],
      contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
    };
    const kubeconfig = file("kubeconfig", JSON.stringify(config));
    await becomes(async () => this.#spawned("kubectl", ["get", "--raw", "/readyz"]).status === 0, "an API server");
    for (const definition of definitions) this.kubectl(["apply", "--server-side", "--filename", definition]);
    this.kubectl(["wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=60s"]);
    this.#runs("scheduler", join(TOOLS, "kube-scheduler"), [
      ...[`--kubeconfig=${kubeconfig}`, "--leader-elect=false", "--secure-port=0"],
    ]);
  }

  #runs(name: string, program: string, args: readonly string[]): void {
    const log = openSync(join(this.#folder, `${name}.log`), "w");
    const child = spawn(program, args, { stdio: ["ignore", log, log], cwd: this.#folder });
    closeSync(log);
    this.#closing.push(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    });
  }

  #spawned(program: string, args: readonly string[], input?: string) {
    const env = { ...process.env, KUBECONFIG: join(this.#folder, "kubeconfig"), HOME: this.#folder };
    return spawnSync(program, args, {
      env,
      encoding: "utf8",
      maxBuffer: 2 ** 27,
      ...(input === undefined ? {} : { input }),
    });
  }

  /** Runs kubectl; returns its output. A failure throws, and so does a warning of the API server. */
  kubectl(args: readonly string[], input?: string): string {
    const { status, stdout, stderr } = this.#spawned("kubectl", args, input);
    if (status !== 0 || stderr !== "") throw new Error(`kubectl ${args.join(" ")}: ${stderr}${stdout}`);
    return stdout;
  }

  /** Returns objects of a namespace, or of all of the cluster. */
  objects(kinds: string, ...args: readonly string[]): readonly Resource[] {
    return JSON.parse(this.kubectl(["get", kinds, "--output", "json", ...args])).items;
  }

  /** Makes a namespace of this name. */
  namespace(name: string): void {
    this.kubectl(["create", "namespace", name]);
  }

  /** Applies objects, server-side. */
  apply(text: string, ...args: readonly string[]): string {
    return this.kubectl(["apply", "--server-side", "--filename", "-", ...args], text);
  }

  /** Runs Helm on the chart with values: `install`, `upgrade`, or a command without them. */
  helm(command: string, namespace: string, ...more: readonly (object | string)[]): void {
    const values = join(this.#folder, "values.yaml");
    const args = more.flatMap((one) => {
      if (typeof one === "string") return [one];
      writeFileSync(values, JSON.stringify(one));
      return [CHART, "--values", values];
    });
    const { status, stderr } = this.#spawned(HELM, [command, "svc", "--namespace", namespace, ...args]);
    if (status !== 0) throw new Error(`helm ${command}: ${stderr}`);
  }

  /** Returns the last lines of the scheduler's log. */
  log(): string {
    return readFileSync(join(this.#folder, "scheduler.log"), "utf8").slice(-2_000);
  }

  async stop(): Promise<void> {
    for (const close of this.#closing.splice(0).reverse()) await close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
