import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseAllDocuments } from "yaml";

const ROOT = join(import.meta.dirname, "../../..");

/** The Go modules with the definitions of the custom resources, and the definitions in them. */
const DEFINITIONS = [
  "sigs.k8s.io/gateway-api@v1.4.1/config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
  "sigs.k8s.io/lws@v0.7.0/config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
  "github.com/kedacore/keda/v2@v2.21.0/config/crd/bases/keda.sh_scaledobjects.yaml",
  ...["alertmanagerconfigs", "podmonitors", "prometheusrules"].map(
    (name) =>
      `github.com/prometheus-operator/prometheus-operator@v0.85.0/example/prometheus-operator-crd/monitoring.coreos.com_${name}.yaml`,
  ),
];

export type Resource = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly [field: string]: unknown;
};

export type Labels = Readonly<Record<string, string>>;

export type Container = {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly envFrom?: readonly { readonly configMapRef: { readonly name: string } }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly resources?: { readonly requests?: Labels; readonly limits?: Labels };
  readonly volumeMounts?: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly subPathExpr?: string;
  }[];
  readonly securityContext?: { readonly capabilities?: { readonly add?: readonly string[] } };
  readonly lifecycle?: { readonly preStop?: { readonly exec?: { readonly command: readonly string[] } } };
};

export type Pod = {
  readonly metadata: { readonly labels: Labels };
  readonly spec: {
    readonly terminationGracePeriodSeconds: number;
    readonly nodeSelector?: Labels;
    readonly initContainers?: readonly Container[];
    readonly containers: readonly Container[];
    readonly volumes: readonly {
      readonly name: string;
      readonly configMap?: { readonly name: string };
      readonly persistentVolumeClaim?: { readonly claimName: string };
    }[];
  };
};

/** Returns the pod templates of a resource: of one that has several, the leader's first. */
export function podsOf({ kind, spec }: Resource): readonly Pod[] {
  if (kind === "Deployment" || kind === "StatefulSet") return [(spec as { readonly template: Pod }).template];
  if (kind !== "LeaderWorkerSet") return [];
  const { leaderWorkerTemplate: both } = spec as {
    readonly leaderWorkerTemplate: { readonly leaderTemplate: Pod; readonly workerTemplate: Pod };
  };
  return [both.leaderTemplate, both.workerTemplate];
}

export const containersOf = ({ spec }: Pod): readonly Container[] => [
  ...(spec.initContainers ?? []),
  ...spec.containers,
];

export const dataOf = (resources: readonly Resource[], name: string | undefined): Labels =>
  (resources.find(({ kind, metadata }) => kind === "ConfigMap" && metadata.name === name)?.data ?? {}) as Labels;

export const selects = (selector: Labels, labels: Labels): boolean =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);

export function configFile(resources: readonly Resource[], { spec }: Pod, file: string): string {
  const volume = spec.volumes.find(({ name }) => name === "config");
  return dataOf(resources, volume?.configMap?.name)[file] ?? "";
}

const has = (program: string, ...args: string[]) => spawnSync(program, args).status === 0;

/** The program that renders kustomizations, with its arguments; undefined if there is none. */
const KUSTOMIZE = has("kubectl", "kustomize", "--help")
  ? ["kubectl", "kustomize"]
  : has("kustomize", "version")
    ? ["kustomize", "build"]
    : undefined;

/** The reason why tests that render manifests are skipped; empty if they are not. */
export const noKustomize = KUSTOMIZE ? "" : "there is no kubectl or kustomize";

/** The files of these definitions. */
export const definitions = has("go", "version")
  ? DEFINITIONS.map((file) => join(execFileSync("go", ["env", "GOMODCACHE"], { encoding: "utf8" }).trim(), file))
  : [];

/** The programs of test/support/kubernetes. */
export const TOOLS = join(ROOT, ".tools/kubernetes");
const VALIDATE = join(TOOLS, "kubernetes-validate");
export const HELM = join(TOOLS, "helm");
export const CHART = join(ROOT, "deploy/kubernetes/chart");
const missing = [VALIDATE, HELM, ...definitions].filter((file) => !existsSync(file));

/** The reason why tests that ask an API server's validation or Helm are skipped; empty if they are not. */
export const noValidation =
  definitions.length > 0 && missing.length === 0
    ? ""
    : "an API server's validation, Helm or the definitions of custom resources are not there: .ci/run builds and fetches them";

const renderings = new Map<string, string>();

export function rendered(folder: string): string {
  const [program = "", ...args] = KUSTOMIZE ?? [];
  const known = renderings.get(folder);
  const text = known ?? execFileSync(program, [...args, join(ROOT, "deploy/kubernetes", folder)], { encoding: "utf8" });
  renderings.set(folder, text);
  return text;
}

export function resourcesOf(text: string): readonly Resource[] {
  return parseAllDocuments(text).map((document) => document.toJS() as Resource);
}

/** Renders a kustomization of one's own, in which `svc/deploy` is that of this checkout. */
export function renderedBeside(kustomization: string): string {
  const folder = mkdtempSync(join(tmpdir(), "svc-own-"));
  try {
    const checkout = relative(realpathSync(folder), ROOT);
    writeFileSync(
      join(folder, "kustomization.yaml"),
      kustomization.replaceAll(/\bsvc\/deploy\b/g, `${checkout}/deploy`),
    );
    return rendered(relative(join(ROOT, "deploy/kubernetes"), folder));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Runs Helm on the chart, for the oldest Kubernetes that it is for; returns what it wrote, or its complaint. */
export function helm(command: "lint" | "template", values: object): { readonly text: string; readonly fault: string } {
  const folder = mkdtempSync(join(tmpdir(), "svc-values-"));
  try {
    writeFileSync(join(folder, "values.yaml"), JSON.stringify(values));
    const args = command === "lint" ? ["lint", CHART, "--strict"] : ["template", "svc", CHART];
    const given = [...args, "--kube-version", "1.29.0", "--values", join(folder, "values.yaml")];
    const { status, stdout, stderr } = spawnSync(HELM, given, { encoding: "utf8" });
    // It names every link that it follows.
    const complaint = stderr.replace(/^.*found symbolic link.*\n/gm, "");
    return { text: stdout, fault: status === 0 ? "" : `${stdout}${complaint}` };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A verdict of an API server, with the strictest level of Pod Security that the pods of the object meet. */
export type Verdict = {
  readonly object: string;
  readonly faults: readonly string[];
  readonly security?: "privileged" | "baseline" | "restricted";
};

export function judged(text: string): readonly Verdict[] {
  // Kubernetes logs there where two forms of its own rules differ.
  const stdio = ["pipe", "pipe", "pipe"] as const;
  return JSON.parse(
    execFileSync(VALIDATE, definitions, { input: text, encoding: "utf8", maxBuffer: 2 ** 26, stdio: [...stdio] }),
  );
}

export function faultsOf(text: string): string {
  return judged(text)
    .flatMap(({ object, faults }) => faults.map((fault) => `${object}: ${fault}\n`))
    .join("");
}
