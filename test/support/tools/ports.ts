import { parse } from "yaml";
import {
  type Container,
  configFile,
  containersOf,
  type Labels,
  type Pod,
  podsOf,
  type Resource,
  selects,
} from "./manifests.ts";

/*
 * Checks every port and name that a rendered set of manifests uses against its target: Services, containers and network
 * policies, joined as in a cluster.
 */

type PortNumber = number | string;
type Selector = { readonly matchLabels?: Labels };
type Rule = {
  readonly ports?: readonly { readonly port: PortNumber }[];
  readonly from?: readonly Peer[];
  readonly to?: readonly Peer[];
};
type Peer = { readonly podSelector?: Selector; readonly namespaceSelector?: Selector };
type Policy = {
  readonly podSelector: Selector;
  readonly policyTypes: readonly string[];
  readonly ingress?: readonly Rule[];
  readonly egress?: readonly Rule[];
};
type Service = {
  readonly clusterIP?: string;
  readonly selector: Labels;
  readonly ports: readonly { readonly port: number; readonly targetPort?: PortNumber }[];
};
type Probe = Readonly<Partial<Record<"httpGet" | "tcpSocket" | "grpc", { readonly port: PortNumber }>>>;
type Probed = Container & Readonly<Partial<Record<"startupProbe" | "livenessProbe" | "readinessProbe", Probe>>>;

/** The opener of a connection: a pod of the set, or one of another namespace. */
type Caller = { readonly labels: Labels; readonly namespace?: Labels };

const MONITORING: Caller = { labels: {}, namespace: { "svc/monitoring": "true" } };
/** A pod of another namespace whose proxies are in front of gateways. */
const OTHER_EDGE: Caller = { labels: {}, namespace: { "svc/edge": "true" } };

type AddressAndPort = { readonly address: string; readonly port_value: number };
type EnvoyConfig = {
  readonly static_resources: {
    readonly listeners: readonly { readonly address: { readonly socket_address: AddressAndPort } }[];
    readonly clusters: readonly {
      readonly name: string;
      readonly load_assignment: { readonly endpoints: readonly { readonly lb_endpoints: readonly EnvoyEndpoint[] }[] };
    }[];
  };
};
type EnvoyEndpoint = {
  readonly endpoint: {
    readonly address: { readonly socket_address: AddressAndPort };
    readonly health_check_config?: { readonly port_value: number };
  };
};

/** Returns the names and ports of an Envoy configuration's endpoints on other hosts, each with its cluster. */
export function envoyTargets(
  text: string,
): readonly { readonly of: string; readonly name: string; readonly port: number }[] {
  const { clusters } = (parse(text) as EnvoyConfig).static_resources;
  return clusters.flatMap(({ name: of, load_assignment: { endpoints } }) =>
    endpoints.flatMap(({ lb_endpoints }) =>
      lb_endpoints.flatMap(({ endpoint: { address, health_check_config: health } }) =>
        (health ? [address.socket_address.port_value, health.port_value] : []).map((port) => ({
          of: `Envoy's ${of}`,
          name: address.socket_address.address,
          port,
        })),
      ),
    ),
  );
}

/** Returns the ports on which a program with this configuration listens for other hosts. */
export function listensOn(config: unknown): readonly number[] {
  const { static_resources: envoy } = config as Partial<EnvoyConfig>;
  if (envoy) return envoy.listeners.map(({ address }) => address.socket_address.port_value);
  return Object.values(config as Readonly<Record<string, { host?: string; port?: number } | undefined>>).flatMap(
    (part) => (part?.host === "0.0.0.0" && part.port !== undefined ? [part.port] : []),
  );
}

class RenderedSet {
  readonly resources: readonly Resource[];
  readonly pods: readonly Pod[];

  constructor(resources: readonly Resource[]) {
    this.resources = resources;
    this.pods = resources.flatMap(podsOf);
  }

  of<Spec>(kind: string): readonly { readonly name: string; readonly spec: Spec }[] {
    const found = this.resources.filter((resource) => resource.kind === kind);
    return found.map(({ metadata, spec }) => ({ name: metadata.name, spec: spec as Spec }));
  }

  selected(selector: Labels | undefined): readonly Pod[] {
    return this.pods.filter(({ metadata }) => selects(selector ?? {}, metadata.labels));
  }

  /** Whether the policies allow a caller to reach a port of a pod: egress of its own, and ingress of that one. */
  reaches(caller: Caller, pod: Pod, port: number): boolean {
    const target = { labels: pod.metadata.labels };
    const out = caller.namespace !== undefined || this.#lets("Egress", caller, target, port);
    return out && this.#lets("Ingress", target, caller, port);
  }

  #lets(type: "Ingress" | "Egress", of: Caller, other: Caller, port: number): boolean {
    const policies = this.of<Policy>("NetworkPolicy").filter(
      ({ spec }) => spec.policyTypes.includes(type) && selects(spec.podSelector.matchLabels ?? {}, of.labels),
    );
    const rules = policies.flatMap(({ spec }) => (type === "Ingress" ? spec.ingress : spec.egress) ?? []);
    return (
      policies.length === 0 ||
      rules.some(
        ({ ports, from, to }) =>
          (ports?.some((one) => one.port === port) ?? true) &&
          ((from ?? to)?.some((peer) => isOf(peer, other)) ?? true),
      )
    );
  }
}

function isOf({ podSelector, namespaceSelector }: Peer, { labels, namespace }: Caller): boolean {
  if (namespaceSelector) return namespace !== undefined && selects(namespaceSelector.matchLabels ?? {}, namespace);
  return namespace === undefined && podSelector !== undefined && selects(podSelector.matchLabels ?? {}, labels);
}

const portsOf = (containers: readonly Container[]) => containers.flatMap(({ ports }) => ports ?? []);
const numberOf = (containers: readonly Container[], port: PortNumber): number | undefined =>
  portsOf(containers).find(({ name, containerPort }) => port === name || port === containerPort)?.containerPort;
const nameOf = ({ metadata: { labels } }: Pod) => labels["app.kubernetes.io/name"] ?? "";

/** Returns the faults of a pod's calls of a port by the name of a Service, load-balanced or headless. */
function callFaults(
  set: RenderedSet,
  pod: Pod,
  call: { of: string; name: string; port: number; each: boolean },
): string[] {
  const { of, name, port, each } = call;
  const service = set.of<Service>("Service").find((one) => one.name === name)?.spec;
  if (!service) return [`${of}: there is no Service ${name}`];
  const served = service.ports.find((one) => one.port === port);
  if (!served) return [`${of}: the Service ${name} has no port ${port}`];
  const faults =
    each && service.clusterIP !== "None" ? [`${of}: the Service ${name} hides the addresses of its pods`] : [];
  for (const target of set.selected(service.selector)) {
    const number = numberOf(containersOf(target), served.targetPort ?? port);
    if (number !== undefined && !set.reaches({ labels: pod.metadata.labels }, target, number))
      faults.push(`${of}: no policy lets ${nameOf(pod)} reach port ${number} of ${nameOf(target)}`);
  }
  return faults;
}

function serviceFaults(set: RenderedSet): string[] {
  return set.of<Service>("Service").flatMap(({ name, spec: { selector, ports, clusterIP } }) => {
    const pods = set.selected(selector);
    if (pods.length === 0) return [`the Service ${name} selects no pod`];
    // A headless Service is called by the port number of the caller.
    return ports.flatMap(({ port, targetPort = port }) =>
      pods
        .filter(
          (pod) =>
            numberOf(containersOf(pod), targetPort) === undefined || (clusterIP === "None" && targetPort !== port),
        )
        .map((pod) => `the Service ${name}: ${nameOf(pod)} has no port ${targetPort} for ${port}`),
    );
  });
}

/** A number may be that of another container of the pod; a name is one of the container itself. */
function probeFaults(pod: Pod): string[] {
  return (containersOf(pod) as readonly Probed[]).flatMap((container) =>
    (["startupProbe", "livenessProbe", "readinessProbe"] as const).flatMap((kind) => {
      const { httpGet, tcpSocket, grpc } = container[kind] ?? {};
      const port = (httpGet ?? tcpSocket ?? grpc)?.port;
      const among = typeof port === "string" ? [container] : containersOf(pod);
      return port === undefined || numberOf(among, port) !== undefined
        ? []
        : [`${kind} of ${container.name} in ${nameOf(pod)}: there is no port ${port}`];
    }),
  );
}

/** Checks the program of a pod by its configuration: the ports and names that it calls. */
function programFaults(set: RenderedSet, pod: Pod): string[] {
  const text = ["envoy.yaml", "gateway.yaml", "engine.yaml"].map((file) => configFile(set.resources, pod, file));
  const [envoy = "", gateway = ""] = text;
  const config = parse(text.join("")) as object | null;
  if (!config) return [];
  const inOrder = (ports: readonly number[]) => [...ports].sort((one, other) => one - other);
  const listening = inOrder(listensOn(config));
  const declared = inOrder(portsOf(pod.spec.containers).map(({ containerPort }) => containerPort));
  const faults =
    String(listening) === String(declared) ? [] : [`${nameOf(pod)} listens on ${listening} and declares ${declared}`];
  if (envoy) faults.push(...envoyTargets(envoy).flatMap((call) => callFaults(set, pod, { ...call, each: true })));
  if (!gateway) return faults;
  for (const port of listening.filter((one) => !set.reaches(OTHER_EDGE, pod, one)))
    faults.push(`no policy lets an edge of another namespace reach port ${port} of ${nameOf(pod)}`);
  const { clusters, state } = config as {
    readonly clusters: readonly { readonly model: string; readonly address: string }[];
    readonly state: { readonly redis: { readonly url: string } };
  };
  const served = new Set(set.pods.map(({ metadata }) => metadata.labels["svc/model"]));
  const calls = [
    ...clusters
      .filter(({ model }) => served.has(model))
      .map(({ model, address }) => ({ of: `the cluster ${model}`, address, each: true })),
    { of: "state.redis", address: new URL(state.redis.url).host, each: false },
  ];
  for (const { of, address, each } of calls) {
    const [name = "", port] = address.split(":");
    faults.push(...callFaults(set, pod, { of, name, port: Number(port), each }));
  }
  return faults;
}

function policyFaults(set: RenderedSet): string[] {
  return set.of<Policy>("NetworkPolicy").flatMap(({ name, spec }) => {
    const mine = set.selected(spec.podSelector.matchLabels);
    const lacks = (pods: readonly Pod[], { ports = [] }: Rule) =>
      ports
        .filter(({ port }) => !pods.some((pod) => numberOf(containersOf(pod), port) !== undefined))
        .map(({ port }) => `the NetworkPolicy ${name}: no pod has the port ${port}`);
    const named = ({ to = [] }: Rule) =>
      to.flatMap(({ podSelector }) => (podSelector ? set.selected(podSelector.matchLabels) : []));
    const outward = (spec.egress ?? []).filter(({ to }) => to?.some(({ podSelector }) => podSelector));
    return [
      ...(spec.ingress ?? []).flatMap((rule) => lacks(mine, rule)),
      ...outward.flatMap((rule) => lacks(named(rule), rule)),
      ...outward.flatMap((rule) =>
        (rule.ports ?? []).flatMap(({ port }) =>
          named(rule)
            .filter((pod) => !mine.every(({ metadata }) => set.reaches(metadata, pod, Number(port))))
            .map((pod) => `the NetworkPolicy ${name}: ${nameOf(pod)} lets nothing of it in on ${port}`),
        ),
      ),
    ];
  });
}

function monitorFaults(set: RenderedSet): string[] {
  type Monitor = { readonly selector: Selector; readonly podMetricsEndpoints: readonly { readonly port: string }[] };
  return set.of<Monitor>("PodMonitor").flatMap(({ name, spec: { selector, podMetricsEndpoints } }) => {
    const pods = set.selected(selector.matchLabels);
    if (pods.length === 0) return [`the PodMonitor ${name} selects no pod`];
    return podMetricsEndpoints.flatMap(({ port }) =>
      pods.flatMap((pod) => {
        const number = numberOf(containersOf(pod), port);
        if (number === undefined) return [`the PodMonitor ${name}: ${nameOf(pod)} has no port ${port}`];
        return set.reaches(MONITORING, pod, number)
          ? []
          : [`the PodMonitor ${name}: no policy lets it reach ${number} of ${nameOf(pod)}`];
      }),
    );
  });
}

function scalerFaults(set: RenderedSet): string[] {
  type Scaler = { readonly scaleTargetRef: { readonly kind?: string; readonly name: string } };
  const scalers = [...set.of<Scaler>("HorizontalPodAutoscaler"), ...set.of<Scaler>("ScaledObject")];
  return scalers
    .filter(({ spec: { scaleTargetRef: to } }) => !set.of(to.kind ?? "Deployment").some(({ name }) => name === to.name))
    .map(({ name, spec: { scaleTargetRef: to } }) => `the scaler ${name}: there is no ${to.name}`);
}

/** Returns the faults of a rendered set: a used port or name without a target, one line each. */
export function portFaults(resources: readonly Resource[]): readonly string[] {
  const set = new RenderedSet(resources);
  const faults = [
    ...serviceFaults(set),
    ...set.pods.flatMap(probeFaults),
    ...set.pods.flatMap((pod) => programFaults(set, pod)),
    ...policyFaults(set),
    ...monitorFaults(set),
    ...scalerFaults(set),
  ];
  return [...new Set(faults)];
}
