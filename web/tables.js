/* SPDX-License-Identifier: Apache-2.0 */
// tables.js : tables as rows, and the little arithmetic that figures need.

// Rows of a table that came as columns; one whose rows are all alike came as one element. Numbers that are none are
// null.
export function tableOf({ columns, shown }) {
  const at = (values, i) => values[values.length === 1 ? 0 : i];
  const names = Object.keys(columns);
  return Array.from({ length: shown }, (_, i) => Object.fromEntries(names.map((name) => [name, at(columns[name], i)])));
}

export const isNumber = (v) => typeof v === "number" && Number.isFinite(v);

// Rows by the value of a key, in order of first appearance.
export function groupBy(rows, key) {
  const groups = new Map();
  for (const row of rows) {
    const group = groups.get(row[key]);
    if (group) group.push(row);
    else groups.set(row[key], [row]);
  }
  return [...groups];
}

// Of all values and `start`. Math.min(...values) would give up at some hundred thousand of them.
export const lowest = (values, start = Infinity) => values.reduce((a, b) => Math.min(a, b), start);
export const highest = (values, start = -Infinity) => values.reduce((a, b) => Math.max(a, b), start);

// Weighted line through points [x, y, weight]; with a slope given, only its height.
export function line(points, slope) {
  const good = points.filter((p) => p.every(isNumber));
  const sum = (f) => good.reduce((s, p) => s + p[2] * f(p), 0);
  const w = sum(() => 1);
  if (good.length < 2 || !(w > 0)) return null;
  const mx = sum((p) => p[0]) / w;
  const my = sum((p) => p[1]) / w;
  const b = slope ?? sum((p) => (p[0] - mx) * (p[1] - my)) / sum((p) => (p[0] - mx) ** 2);
  return { slope: b, at: (x) => my + b * (x - mx) };
}

// `count` points from low to high, evenly or by equal factors.
export function grid(low, high, count, log = false) {
  const at = (t) => (log ? low * (high / low) ** t : low + (high - low) * t);
  return Array.from({ length: count }, (_, i) => at(i / (count - 1)));
}

export const extent = (values) => {
  const good = values.filter(isNumber);
  return good.length ? [lowest(good), highest(good)] : null;
};

// A number for people, with its standard error if there is one: "0.512 ± 0.031".
export function show(value, error) {
  if (!isNumber(value)) return "–";
  if (isNumber(error) && error > 0) {
    const decimals = 1 - Math.floor(Math.log10(error));
    if (decimals <= 12 && Math.abs(value) < 1e7) {
      const places = Math.max(decimals, 0);
      return `${value.toFixed(places)} ± ${error.toFixed(places)}`;
    }
    return `${brief(value, 4)} ± ${brief(error, 2)}`;
  }
  return brief(value, 5);
}

export const superscript = (k) => String(k).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));

// 4096, 0.02, 10⁶, 3.2·10⁻⁷
function brief(v, digits) {
  if (v === 0 || (Math.abs(v) >= 1e-4 && Math.abs(v) < 1e6))
    return String(Number.isInteger(v) ? v : Number(v.toPrecision(digits)));
  const [lead, k] = v.toExponential(digits - 1).split("e");
  return `${Number(lead) === 1 ? "" : `${Number(lead)}·`}10${superscript(Number(k))}`;
}

export function csvOf(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const field = (v) => {
    if (v === null || v === undefined) return "";
    const text = String(v);
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return (
    [names, ...rows.map((row) => names.map((n) => row[n]))].map((r) => r.map(field).join(",")).join("\r\n") + "\r\n"
  );
}
