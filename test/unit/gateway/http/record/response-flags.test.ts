import { describe, expect, test } from "vitest";
import { type FlaggedRequest, responseFlags } from "../../../../../gateway/http/record/response-flags.ts";

const failed = (detail: FlaggedRequest["detail"], more: Partial<FlaggedRequest> = {}) =>
  responseFlags({ detail, endReason: undefined, attempts: 1, firstDeltaMs: undefined, ...more });

describe("response flags", () => {
  test.each([
    ["no_healthy_upstream", "UH"],
    ["upstream_draining", "UH"],
    ["upstream_reset", "UC"],
    ["upstream_aborted", "UR"],
    ["upstream_protocol_error", "UPE"],
    ["upstream_queue_full", "UO"],
    ["upstream_timeout", "UT"],
    ["unknown_url", "NR"],
    ["unknown_model", "NC"],
    ["key_rpm_exceeded", "RL"],
    ["key_model_concurrency_exceeded", "RL"],
    ["unclear_transfer_encoding", "DPE"],
    ["overload_stop_accepting_requests", "OM"],
    ["downstream_remote_disconnect", "DC"],
    ["drain_timeout", "LR"],
    ["request_of_death", "UO"],
    ["request_of_death_suspected", "UO"],
  ] as const)("%s is %s", (detail, flag) => expect(failed(detail)).toBe(flag));

  test.each([[undefined], ["invalid_value"], ["api_key_missing"], ["auth_failures_exceeded"]] as const)(
    "%s is not an upstream failure",
    (detail) => expect(failed(detail)).toBe("-"),
  );

  test("a client that disconnected, or stopped reading, is the reason whatever followed", () => {
    expect(failed("upstream_reset", { endReason: "client_closed" })).toBe("DC");
    expect(failed("downstream_remote_disconnect", { endReason: "slow_reader" })).toBe("SI");
  });

  test("several failed attempts set the flag for exhausted retries", () => {
    expect(failed("upstream_reset", { attempts: 3 })).toBe("UC,URX");
    expect(failed("upstream_reset", { attempts: 1 })).toBe("UC");
  });

  test.each([
    ["a stream that broke after its first delta", "upstream_reset", true],
    ["a time limit of the whole request", "upstream_timeout", false],
    ["a message that no endpoint takes", "upstream_message_too_large", false],
    ["the end of this process", "drain_timeout", false],
    ["a request that kills engines", "request_of_death", false],
  ] as const)("%s was not retried, however many attempts came before", (_, detail, begun) => {
    expect(failed(detail, { attempts: 3, firstDeltaMs: begun ? 5 : undefined })).not.toContain("URX");
  });
});
