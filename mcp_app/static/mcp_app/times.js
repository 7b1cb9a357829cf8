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
