import { seededRandom } from "../../support/seeded-random.ts";
import type { EventQueue } from "./event-queue.ts";
import { PlayedSession, type PlayedWorld } from "./played-session.ts";
import type { Prompt } from "./prompt.ts";
import type { RecordedSession } from "./recorded-session.ts";

/** The time within which all sessions have begun, in milliseconds. */
const JOIN_MS = 120_000;
/** The shortest time between two sessions of a user in milliseconds, and how much longer it is at most. */
const BETWEEN_MS = { least: 1_000, spread: 20_000 };
/** The text to a token: the least of all sessions, and how much more it is at most. */
const BYTES_PER_TOKEN = { least: 3.2, spread: 1.6 };
const MOST_SEED = 1_000_003;

/** Sends a request; `onAnswered` is called when its answer is whole. */
export type Send = (prompt: Prompt, onAnswered: () => void) => void;

/**
 * Plays `users` who each have one session after the other. A user joins a recorded session, drawn at random, in its
 * middle, waits for each answer and then for as long as recorded; the sessions behind the first one are played whole.
 * The users and their sessions are the same for every `send`.
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

/** Plays requests at the times at which they were recorded, whether earlier ones are answered or not. */
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
