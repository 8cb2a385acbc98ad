import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import { RunningAnswers } from "../../../../../gateway/http/answer/running-answers.ts";

/** A running reply whose caller disconnects at `emit("close")`. */
class Reply extends EventEmitter {
  readonly destroyed = false;
  readonly headersSent = true;
  readonly statusCode = 200;
  readonly writableFinished = false;
}

test("an answer is aborted when its caller disconnects", () => {
  const running = new RunningAnswers({ nowMs: () => 1_000 });
  const reply = new Reply();
  const answer = running.begin(reply, "key");
  expect([answer.signal.aborted, answer.leftMs]).toEqual([false, undefined]);
  reply.emit("close");
  expect([answer.signal.aborted, answer.leftMs]).toEqual([true, 1_000]);
});

test("a complete answer is not aborted when its reply is closed", () => {
  const running = new RunningAnswers({ nowMs: () => 0 });
  const reply = Object.assign(new Reply(), { writableFinished: true });
  const answer = running.begin(reply, "key");
  reply.emit("close");
  expect(answer.signal.aborted).toBe(false);
  expect(answer.leftMs).toBeUndefined();
});
