import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";

const ROOT = join(import.meta.dirname, "../../..");

/** The Go modules with the definitions of the custom resources, and the definitions in them. */
const DEFINITIONS = [
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

const definitions = has("go", "version")
  ? DEFINITIONS.map((file) => join(execFileSync("go", ["env", "GOMODCACHE"], { encoding: "utf8" }).trim(), file))
  : [];

const PYTHON = join(ROOT, ".tools/bin/python");

/** The reason why tests that check manifests against schemas are skipped; empty if they are not. */
export const noSchemas = has(PYTHON, "-c", "import kubernetes_validate")
  ? definitions.length > 0 && definitions.every((file) => existsSync(file))
    ? ""
    : "the definitions of custom resources are not there: .ci/run fetches them"
  : "no schemas: `python3 -m venv .tools && .tools/bin/pip install kubernetes-validate==1.37.0` brings them";

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

export function faultsOf(text: string): string {
  const script = join(ROOT, "test/deploy/validate-manifests.py");
  const { status, stdout, stderr } = spawnSync(PYTHON, [script, ...definitions], { input: text, encoding: "utf8" });
  return status === 0 ? "" : `${stdout}${stderr}`;
}
