import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { type CallEnding, outlierOutcome } from "../../../../../gateway/upstream/outlier/outlier-outcome.ts";

const ended = (code: status, notReady = false): CallEnding => ({ kind: "status", code, notReady });

test.each([
  ["an answer", { kind: "completed" }, "success"],
  ["a refused connection", { kind: "connect_failure" }, "local_failure"],
  ["a lost connection", { kind: "reset" }, "local_failure"],
  ["a stall", { kind: "stalled" }, "local_failure"],
  ["events out of order", { kind: "protocol_violation" }, "external_failure"],
  ["another version", { kind: "version_mismatch" }, "external_failure"],
  ["UNAVAILABLE", ended(status.UNAVAILABLE), "external_failure"],
  ["INTERNAL", ended(status.INTERNAL), "external_failure"],
  ["DATA_LOSS", ended(status.DATA_LOSS), "external_failure"],
  ["UNKNOWN", ended(status.UNKNOWN), "external_failure"],
  ["a node that drains", ended(status.UNAVAILABLE, true), "neutral"],
  ["a full queue", ended(status.RESOURCE_EXHAUSTED, true), "neutral"],
  ["a message that is too large", ended(status.RESOURCE_EXHAUSTED), "neutral"],
  ["a bad request", ended(status.INVALID_ARGUMENT), "neutral"],
  ["a prompt that is too long", ended(status.FAILED_PRECONDITION), "neutral"],
  ["our own deadline", ended(status.DEADLINE_EXCEEDED), "neutral"],
  ["our own cancelling", ended(status.CANCELLED), "neutral"],
  ["a client that left", { kind: "cancelled" }, "neutral"],
] as const)("%s", (_, ending, outcome) => {
  expect(outlierOutcome(ending)).toBe(outcome);
});
