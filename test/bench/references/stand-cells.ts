/** The load of a cell: concurrent streams, or requests at saturation. */
export type Cell =
  | {
      readonly kind: "stream";
      readonly streams: number;
      readonly eventsPerSecond: number;
      readonly clocks: "random" | "step";
      /** Whether the gateway's other formats are measured, too. */
      readonly formats: boolean;
    }
  | { readonly kind: "request"; readonly bytes: number };

/** The extent: quick, for a release, or every cell. */
export type Extent = "quick" | "default" | "full";

const stream = (
  streams: number,
  eventsPerSecond = 50,
  clocks: "random" | "step" = "random",
  formats = false,
): Cell => ({
  ...{ kind: "stream", streams, eventsPerSecond, clocks, formats },
});
const request = (bytes: number): Cell => ({ kind: "request", bytes });

/** The cells of each extent. Thousands of streams get one delta per second, the limit of the client. */
const CELLS: Readonly<Record<Extent, readonly Cell[]>> = {
  quick: [stream(200), request(1_000)],
  default: [stream(200), request(1_000)],
  full: [
    ...[stream(1), stream(100), stream(200, 50, "random", true), stream(200, 50, "step")],
    ...[
      stream(400),
      stream(1_000),
      stream(1_000, 1),
      stream(5_000, 1),
      request(1_000),
      request(100_000),
      request(1_000_000),
    ],
  ],
};

/** Returns the short name of a cell for `--cells`: `200x50`, `200x50-step`, `100KB`. */
function cellName(cell: Cell): string {
  if (cell.kind === "request") return `${cell.bytes / 1_000}KB`;
  return `${cell.streams}x${cell.eventsPerSecond}${cell.clocks === "step" ? "-step" : ""}`;
}

export const CELL_NAMES: readonly string[] = CELLS.full.map(cellName);

/** Returns the cells of an extent, or the named ones of all cells. */
export function cellsOf(extent: Extent, names: readonly string[] | undefined): readonly Cell[] {
  return names ? CELLS.full.filter((cell) => names.includes(cellName(cell))) : CELLS[extent];
}

export function cellTitle(cell: Cell): string {
  if (cell.kind === "request") return `requests of ${cell.bytes / 1_000} KB, 16 tokens in one piece, at saturation`;
  return `${cell.streams} streams x ${cell.eventsPerSecond} deltas/s, ${cell.clocks} clocks`;
}
