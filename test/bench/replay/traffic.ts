import { seededRandom } from "../../support/seeded-random.ts";
import type { EventQueue } from "./event-queue.ts";
import { PlayedSession, type PlayedWorld } from "./played-session.ts";
import type { Prompt } from "./prompt.ts";
import type { RecordedSession } from "./recorded-session.ts";

/** The time within which all sessions begin, in milliseconds. */
const JOIN_MS = 120_000;
/** The pause between two sessions of a user, in milliseconds: its minimum and random spread. */
const BETWEEN_MS = { least: 1_000, spread: 20_000 };
/** Bytes of text per token: the minimum of all sessions and the random spread. */
const BYTES_PER_TOKEN = { least: 3.2, spread: 1.6 };
const MOST_SEED = 1_000_003;

/** Sends a request; `onAnswered` is called when its answer is complete. */
export type Send = (prompt: Prompt, onAnswered: () => void) => void;

/**
 * Plays `users` with one session after another each. A user joins a random recorded session in its middle, waits for
 * each answer and the recorded pause; later sessions are played whole. Users and sessions are the same for every
 * `send`.
 */
export function playUsers(
  sessions: readonly RecordedSession[],
  users: number,
  { world, time, seed, send }: { world: PlayedWorld; time: EventQueue; seed: number; send: Send },
): void {
  for (let user = 0; user < users; user += 1) {
    const random = seededRandom(seed * MOST_SEED + user);
    let played = 0;
    const begin = (joins: boolean) => {
      const recorded = sessions[Math.floor(random() * sessions.length)];
      if (!recorded) return;
      played += 1;
      const bytesPerToken = BYTES_PER_TOKEN.least + random() * BYTES_PER_TOKEN.spread;
      const session = new PlayedSession(recorded, world, `u${user}.${played}`, bytesPerToken);
      const turn = (index: number) => {
        const prompt = session.prompt(index);
        if (!prompt) {
          session.end();
          time.after(BETWEEN_MS.least + random() * BETWEEN_MS.spread, () => begin(false));
          return;
        }
        send(prompt, () => time.after(recorded.turns[index + 1]?.pauseMs ?? 0, () => turn(index + 1)));
      };
      turn(joins ? Math.floor(random() * recorded.turns.length) : 0);
    };
    time.after(random() * JOIN_MS, () => begin(true));
  }
}

/** Plays requests at their recorded times, independent of earlier answers. */
export function playArrivals(
  requests: RecordedSession,
  arrivalsMs: readonly number[],
  { world, time, seed, send }: { world: PlayedWorld; time: EventQueue; seed: number; send: Send },
): void {
  const session = new PlayedSession(requests, world, `r${seed}`, BYTES_PER_TOKEN.least + BYTES_PER_TOKEN.spread / 2);
  for (const [turn, atMs] of arrivalsMs.entries())
    time.after(atMs, () => {
      const prompt = session.prompt(turn);
      if (prompt) send(prompt, () => {});
    });
}
