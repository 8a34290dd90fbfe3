/* SPDX-License-Identifier: Apache-2.0 */
// selection.js : the head that a reader has picked in a run: marked in all its figures, named in a bar that stays in
// sight, and part of the page's address: #L3H5, of the first run that has heads, #run-2-L3H5 of the second run.
//
// A pick is "L3H5", or "L3H5-code" where heads were measured in several domains; its head is "L3H5".

const headOf = (pick) => pick.split("-")[0];
const words = (pick) => {
  const [, layer, head, domain] = pick.match(/^L(\d+)H(\d+)(?:-(.*))?$/);
  return `layer ${layer}, head ${head}${domain ? `, ${domain}` : ""}`;
};

export class Selection extends EventTarget {
  // picks: all that can be picked, the first of a head for its short address; prefix: of the address.
  constructor(picks, prefix) {
    super();
    this.picks = picks;
    this.prefix = prefix;
    this.pick = ""; // nothing
  }

  get head() {
    return this.pick && headOf(this.pick);
  }

  // Unknown picks are ignored: an address may come from another page.
  set(pick) {
    const known = pick && (this.picks.find((p) => p === pick) ?? this.picks.find((p) => headOf(p) === pick));
    if ((pick && !known) || (known || "") === this.pick) return Boolean(known);
    this.pick = known || "";
    this.dispatchEvent(new Event("change"));
    return Boolean(known);
  }

  // As short as it can be: the first domain of a head is left out.
  get hash() {
    const short = this.picks.find((p) => headOf(p) === this.head) === this.pick ? this.head : this.pick;
    return short && `#${this.prefix}${encodeURIComponent(short)}`;
  }

  // What an address picks in this run; "" for that of something else.
  inHash(hash) {
    let text = "";
    try {
      text = decodeURIComponent(hash.slice(1));
    } catch {
      return ""; // half a character
    }
    if (!text.startsWith(this.prefix)) return "";
    const pick = text.slice(this.prefix.length);
    return /^L\d+H\d+(-.*)?$/.test(pick) ? pick : "";
  }
}

// Bars of all runs, at the top of the window. One is seen while something of its run is.
let bars;
function barOf(section, selection) {
  const bar = document.createElement("div");
  let near = true;
  if (!bars) {
    bars = document.createElement("div");
    bars.className = "picks";
    section.before(bars);
  }
  bar.className = "picked";
  bar.setAttribute("role", "status");
  bar.update = () => (bar.hidden = !selection.pick || !near);
  bar.update();
  bars.append(bar);
  new IntersectionObserver(([seen]) => {
    near = seen.isIntersecting;
    bar.update();
  }).observe(section);
  return bar;
}

// The bar and the address follow the selection; the address that the page was opened with picks.
// place: where the run's figures are; curves: id of the one that shows the picked head.
export function followSelection(selection, place, curves) {
  const bar = barOf(place.closest("section") ?? place, selection);
  const name = document.createElement("strong");
  const link = document.createElement("a");
  const close = document.createElement("button");
  link.href = `#${curves}`;
  link.textContent = "its curves";
  close.type = "button";
  close.textContent = "×";
  close.setAttribute("aria-label", "Select no head");
  bar.append(name, link, close);
  close.addEventListener("click", () => selection.set(""));
  link.addEventListener("click", (event) => {
    event.preventDefault(); // the address stays that of the head
    document.getElementById(curves)?.scrollIntoView();
  });
  selection.addEventListener("change", () => {
    bar.update();
    name.textContent = selection.pick ? words(selection.pick) : "";
    history.replaceState(null, "", selection.hash || location.pathname + location.search);
  });
  const goThere = () => {
    if (!selection.set(selection.inHash(location.hash))) return;
    for (let e = place; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    place.scrollIntoView();
  };
  addEventListener("hashchange", goThere);
  goThere();
}
