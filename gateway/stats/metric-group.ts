import { Counter, Gauge, Histogram, type Registry } from "prom-client";

/** Metrics in one registry, which is set before the fields of a subclass, so that these can register in it. */
export class MetricGroup {
  readonly registry: Registry;

  constructor(registry: Registry) {
    this.registry = registry;
  }

  protected counter<T extends string>(name: string, help: string, ...labelNames: T[]): Counter<T> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  protected gauge<T extends string>(name: string, help: string, ...labelNames: T[]): Gauge<T> {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }

  protected histogram<T extends string>(
    name: string,
    help: string,
    buckets: readonly number[],
    ...labelNames: T[]
  ): Histogram<T> {
    return new Histogram({ name, help, labelNames, buckets: [...buckets], registers: [this.registry] });
  }
}
