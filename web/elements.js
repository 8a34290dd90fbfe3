/* SPDX-License-Identifier: Apache-2.0 */
// elements.js : parts of the page that scripts make.
import { csvOf } from "./tables.js";

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// ---- taking something away ----

export function download(name, blob) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export const downloadCsv = (name, rows) => download(`${name}.csv`, new Blob([csvOf(rows)], { type: "text/csv" }));
