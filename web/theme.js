// theme.js : the colours of the page, as the style sheet has them now, for figures.

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
    ramp: dark
      ? ["#20262e", "#274a6e", "#3f86b8", "#9fd0d8", "#f4f0c0"]
      : ["#f7f4e4", "#b9dcd9", "#5ca4c4", "#2a6aa3", "#172f5e"],
  };
}

// Saved figures go into papers: always on white.
export const paperTheme = {
  paper: "#ffffff",
  ink: "#1d1e20",
  quiet: "#4a4d52",
  rule: "#d9d9d3",
  font: "Helvetica, Arial, sans-serif",
  palette: ["#0b66ad", "#c04a12", "#35772f", "#7a4fa3", "#8a6508", "#b02f62", "#2f7f80", "#5f6368"],
  ramp: ["#f7f4e4", "#b9dcd9", "#5ca4c4", "#2a6aa3", "#172f5e"],
};
