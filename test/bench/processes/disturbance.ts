/** What disturbs running streams: a body is sent, or one key of a file of many is changed. */
export const DISTURBANCES = ["20 MB body", "1 MB body of 5,000 messages", "one key of 100,000 changed"] as const;
/** One of the things that disturb. */
export type Disturbance = (typeof DISTURBANCES)[number];
/** The argument of the program that disturbs. */
export type DisturbingTask = {
  readonly kind: Disturbance;
  readonly port: number;
  readonly key: string;
  readonly keyFile: string;
};
