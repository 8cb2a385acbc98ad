import { describe, expect, test } from "vitest";
import { StopOrders } from "../../../deploy/runtime/process/stop-orders.ts";
import { Lifecycle } from "../../../gateway/lifecycle.ts";

function started() {
  const time = { nowMs: 0 };
  const lifecycle = new Lifecycle(new StopOrders(() => time.nowMs));
  const signals = () => [lifecycle.drain, lifecycle.stop, lifecycle.hardStop].map(({ aborted }) => aborted);
  return { lifecycle, time, signals };
}

describe("state", () => {
  test("state is LIVE as soon as a model can be served and callers are listened to", () => {
    const { lifecycle } = started();
    expect(lifecycle.state(true)).toBe("PRE_INITIALIZING");
    lifecycle.listening();
    expect(lifecycle.state(false)).toBe("PRE_INITIALIZING");
    expect(lifecycle.state(true)).toBe("LIVE");
  });

  test("state is DRAINING while health was failed by hand, and ends no stream", () => {
    const { lifecycle, signals } = started();
    lifecycle.listening();
    lifecycle.failHealth(true);
    expect(lifecycle.state(true)).toBe("DRAINING");
    expect(signals()).toEqual([false, false, false]);
    lifecycle.failHealth(false);
    expect(lifecycle.state(true)).toBe("LIVE");
  });

  test("state stays DRAINING once listeners drain", () => {
    const { lifecycle } = started();
    lifecycle.drainListeners(true);
    lifecycle.failHealth(false);
    expect(lifecycle.state(true)).toBe("DRAINING");
  });
});

describe("orders", () => {
  test("draining listeners leaves the process alone", () => {
    const { lifecycle, signals } = started();
    lifecycle.drainListeners(true);
    expect(signals()).toEqual([true, false, false]);
    expect(lifecycle.graceful).toBe(true);
  });

  test("SIGTERM drains with grace, so that load balancers notice", () => {
    const { lifecycle, signals } = started();
    lifecycle.quit();
    expect(signals()).toEqual([true, true, false]);
    expect(lifecycle.graceful).toBe(true);
    expect(lifecycle.state(true)).toBe("DRAINING");
  });

  test("a drain without grace gets none at SIGTERM", () => {
    const { lifecycle } = started();
    lifecycle.drainListeners(false);
    lifecycle.quit();
    expect(lifecycle.graceful).toBe(false);
  });

  test("the first word on grace counts", () => {
    const { lifecycle } = started();
    lifecycle.drainListeners(false);
    lifecycle.drainListeners(true);
    expect(lifecycle.graceful).toBe(false);
  });

  test.each([
    [500, false],
    [501, true],
  ])("a second order after %i ms cuts what runs: %s", (afterMs, cut) => {
    const { lifecycle, time, signals } = started();
    lifecycle.quit();
    time.nowMs += afterMs;
    lifecycle.quit();
    expect(signals()).toEqual([true, true, cut]);
  });

  test("without anybody who waits, all ends", () => {
    const { lifecycle, signals } = started();
    lifecycle.quitNow();
    expect(signals()).toEqual([true, true, true]);
  });
});
