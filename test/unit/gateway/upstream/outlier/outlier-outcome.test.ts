import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { type CallEnding, outlierOutcome } from "../../../../../gateway/upstream/outlier/outlier-outcome.ts";

const ended = (code: status, notReady = false): CallEnding => ({ kind: "status", code, notReady });

test.each([
  ["an answer", { kind: "completed" }, "success"],
  ["a refused connection", { kind: "connect_failure" }, "failure"],
  ["a lost connection", { kind: "reset" }, "failure"],
  ["a stall", { kind: "stalled" }, "failure"],
  ["events out of order", { kind: "protocol_violation" }, "failure"],
  ["another version", { kind: "version_mismatch" }, "failure"],
  ["UNAVAILABLE", ended(status.UNAVAILABLE), "failure"],
  ["INTERNAL", ended(status.INTERNAL), "failure"],
  ["DATA_LOSS", ended(status.DATA_LOSS), "failure"],
  ["UNKNOWN", ended(status.UNKNOWN), "failure"],
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
