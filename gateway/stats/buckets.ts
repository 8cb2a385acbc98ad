/*
 * Upper bounds of the histograms. OpenTelemetry's lists for generative AI, made longer: a prompt of a million tokens takes
 * minutes to its first token.
 */

export const SECONDS_TO_AN_HOUR: readonly number[] = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 655.36,
  1310.72, 3600,
];
export const SECONDS_TO_FIRST_TOKEN: readonly number[] = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320, 600,
];
export const SECONDS_PER_TOKEN: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5,
];
export const SECONDS_TO_CANCEL: readonly number[] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
export const SECONDS_IN_STORE: readonly number[] = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1];
export const SECONDS_IN_QUEUE: readonly number[] = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160];
export const POWERS_OF_FOUR: readonly number[] = Array.from({ length: 14 }, (_, power) => 4 ** power);
