// Times as all pages write them, in the zone that the page names (zone.js).

const FORM = {
  hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  fractionalSecondDigits: 3,
};
export const zone = document.documentElement.dataset.mcpZone || "UTC";
const written = new Intl.DateTimeFormat("en-US", { ...FORM, timeZone: zone });

function parts(milliseconds) {
  const found = {};
  for (const { type, value } of written.formatToParts(milliseconds)) found[type] = value;
  return found;
}

// 2026-11-23
export function day(milliseconds) {
  const { year, month, day: number } = parts(milliseconds);
  return `${year}-${month}-${number}`;
}

// 14:05:06.123
export function clock(milliseconds) {
  const { hour, minute, second, fractionalSecond } = parts(milliseconds);
  return `${hour}:${minute}:${second}.${fractionalSecond}`;
}

// 2026-11-23 14:05:06
export function moment(milliseconds) {
  return `${day(milliseconds)} ${clock(milliseconds).slice(0, 8)}`;
}

// A time in the past: 32 s ago, 5 min ago, 3 h ago, 2 days ago. `from_now` of markup.py writes the same.
export function ago(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const [unit, length] = [["s", 1, 60], ["min", 60, 3600], ["h", 3600, 86400], ["day", 86400, Infinity]].find(([, , most]) => seconds < most);
  const number = Math.floor(seconds / length);
  return `${number} ${unit}${unit === "day" && number !== 1 ? "s" : ""} ago`;
}

// A duration: <0.1 ms, 1.5 ms, 3.2 s, 4 min 05 s. `span` of markup.py writes the same.
export function span(milliseconds) {
  const ms = Math.max(0, milliseconds);
  if (ms < 0.1) return "<0.1 ms";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${Math.floor(hours / 24)} d`;
}
