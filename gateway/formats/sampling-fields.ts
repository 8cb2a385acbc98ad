import * as z from "zod";

/*
 * The sampling fields that the formats have in common; absent and null are the same.
 */

export function temperatureUpTo(most: number) {
  return z
    .number()
    .min(0)
    .max(most)
    .nullish()
    .describe("The randomness of the answer; at 0 the likeliest token is always taken. Default: the model's own.");
}

export const topP = z
  .number()
  .min(0)
  .max(1)
  .nullish()
  .describe("The share of probability to choose from, likeliest tokens first. Default: the model's own.");

const penalty = z.number().min(-2).max(2).nullish();

export const frequencyPenalty = penalty.describe(
  "Lowers the odds of a token by each time it has been written already. Default: 0, unless the engine has its own.",
);

export const presencePenalty = penalty.describe(
  "Lowers the odds of a token once it has been written already. Default: 0, unless the engine has its own.",
);
