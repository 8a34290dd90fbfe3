// rope.js : how the score of two rotary-embedded vectors falls with their distance.
import { show } from "../tables.js";

// Scores come as one column for each embedding, whose names stand in the answer.
export function rope({ answer, tables: { scores } }) {
  const keys = Object.keys(scores?.[0] ?? {}).filter((key) => /^score\.\d+$/.test(key));
  const name = (key) => answer[key.replace("score", "labels")] ?? key;
  if (!keys.length) return [];
  const rows = keys.flatMap((key) => scores.map((r) => ({ series: name(key), x: r.distance, y: r[key], tip: [["distance", show(r.distance)], ["score", show(r[key])]] })));
  return [
    {
      title: "Score of all-ones query and key against their distance",
      caption: "√d at distance 0. Where it reaches zero, positions can no longer be told near from far: 0.62 times the base, with many dimensions.",
      table: "scores",
      x: { title: "distance, tokens", log: true }, y: { title: "score", zero: true },
      series: keys.map((key, i) => ({ name: name(key), colour: i })),
      layers: [{ kind: "line", name: "score", width: 1.2, rows }, { kind: "points", name: "score", size: 26, rows }],
    },
  ];
}
