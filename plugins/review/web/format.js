// Figures and times as text.

export function percent(value) {
  return value === null || value === undefined ? "–" : `${round(value)} %`;
}

export function round(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size < 1e-9) return "0"; // also rounding errors of sums that are 0
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return size >= 0.1 ? value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2) : value.toPrecision(2);
}

export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(size >= 100 ? 0 : 1)} ${units[unit]}`;
}

/** "2026-11-17 22:05 UTC". */
export function time(text) {
  return text ? `${text.slice(0, 10)} ${text.slice(11, 16)} UTC` : "–";
}

const WORDS = { gate_failed: "gate failed", rolled_back: "rolled back", dry_run: "dry run" };

export function word(event) {
  return WORDS[event] ?? (event ? event.replaceAll("_", " ") : "–");
}
