/* SPDX-License-Identifier: Apache-2.0 */
// theme.js : the colours of the page, as the style sheet has them now, for figures.

// Of heat maps: from little to much, lighter or darker all the way.
export const ramps = {
  light: ["#f7f4e4", "#b9dcd9", "#5ca4c4", "#2a6aa3", "#172f5e"],
  dark: ["#20262e", "#274a6e", "#3f86b8", "#9fd0d8", "#f4f0c0"],
};

export function themeNow() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
  return {
    paper: get("--paper"),
    ink: get("--ink"),
    quiet: get("--quiet"),
    rule: get("--rule"),
    font: get("--sans"),
    palette: Array.from({ length: 8 }, (_, i) => get(`--s${i}`)),
    ramp: dark ? ramps.dark : ramps.light,
  };
}

// Saved figures go into papers: always on white.
export const paperTheme = {
  paper: "#ffffff",
  ink: "#1d1e20",
  quiet: "#4a4d52",
  rule: "#d9d9d3",
  font: "Helvetica, Arial, sans-serif",
  // --s0 to --s7 of the light page; chosen so that any two differ also to red-blind and green-blind eyes
  palette: ["#07639d", "#c54d08", "#388255", "#7e56d4", "#7b4303", "#72125d", "#178494", "#525e65"],
  ramp: ramps.light,
};
