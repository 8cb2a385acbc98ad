import { EventEmitter } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { RunningAnswers } from "../../../../../gateway/http/answer/running-answers.ts";

/** A reply under way whose caller leaves when `emit("close")` says so. */
class Reply extends EventEmitter {
  readonly destroyed = false;
  readonly headersSent = true;
  readonly statusCode = 200;
  readonly writableFinished = false;
}

test("callers that leave together are left at one moment, and their answers given up in several turns", async () => {
  let nowMs = 1_000;
  const running = new RunningAnswers({ nowMs: () => nowMs });
  const replies = Array.from({ length: 100 }, () => new Reply());
  const answers = replies.map((reply) => running.begin(reply, "key"));
  const givenUp = () => answers.filter(({ signal }) => signal.aborted).length;

  for (const reply of replies) reply.emit("close");
  const atOnce = givenUp();
  expect(atOnce).toBeGreaterThan(0);
  expect(atOnce).toBeLessThan(50);
  nowMs = 2_000;
  for (let turns = 0; givenUp() < 100 && turns < 100; turns += 1) await turn();
  expect(givenUp()).toBe(100);
  expect(new Set(answers.map(({ leftMs }) => leftMs))).toEqual(new Set([1_000]));
});

test("an answer that is whole is not given up when its reply is closed", async () => {
  const running = new RunningAnswers({ nowMs: () => 0 });
  const reply = Object.assign(new Reply(), { writableFinished: true });
  const answer = running.begin(reply, "key");
  reply.emit("close");
  await turn();
  expect(answer.signal.aborted).toBe(false);
  expect(answer.leftMs).toBeUndefined();
});
