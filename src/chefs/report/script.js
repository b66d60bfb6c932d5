"use strict";
// Nodes and edges say what they are when pointed at, or when arrow keys go through a graph that has the focus. A slider
// hides weak edges of the graphs in its figure; a list picks the draw whose graph is shown.
(() => {
  const tip = document.getElementById("tip");

  function prepare(graph) {
    for (const part of graph.querySelectorAll(".tip")) {
      const title = part.querySelector("title");
      part.dataset.tip = title.textContent;
      title.remove(); // else the browser shows it too
      part.setAttribute("aria-label", part.dataset.tip);
      const line = part.classList.contains("edge") && part.querySelector("path");
      if (line) { // thin lines are hard to hit
        const wide = line.cloneNode();
        wide.removeAttribute("stroke-width");
        wide.setAttribute("class", "hit");
        part.append(wide);
      }
    }
  }

  function say(part, x, y) {
    const graph = part.closest("svg");
    quiet(graph);
    tip.textContent = part.dataset.tip;
    tip.hidden = false;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(4, Math.min(x + 12, room)) + window.scrollX}px`;
    tip.style.top = `${y + 16 + window.scrollY}px`;
    part.classList.add("at");
    const node = part.dataset.node;
    if (node !== undefined) {
      graph.classList.add("busy");
      for (const edge of graph.querySelectorAll(`[data-from="${node}"], [data-to="${node}"]`)) edge.classList.add("at");
    }
  }

  function quiet(graph) {
    tip.hidden = true;
    graph.classList.remove("busy");
    for (const part of graph.querySelectorAll(".at")) part.classList.remove("at");
  }

  document.addEventListener("pointerover", (event) => {
    const part = event.target.closest?.("svg.graph .tip");
    if (part) say(part, event.clientX, event.clientY);
  });
  document.addEventListener("pointerout", (event) => {
    const part = event.target.closest?.("svg.graph .tip");
    if (part) quiet(part.closest("svg"));
  });
  document.addEventListener("focusout", (event) => {
    if (event.target.matches?.("svg.graph")) quiet(event.target);
  });

  const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  document.addEventListener("keydown", (event) => {
    const graph = event.target;
    if (!graph.matches?.("svg.graph")) return;
    if (event.key === "Escape") quiet(graph);
    if (!(event.key in moves) && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    // From the last to be drawn to the first: nodes, then edges from the thickest to the thinnest.
    const parts = [...graph.querySelectorAll(".tip:not(.weak)")].reverse();
    const last = parts.length - 1;
    const now = parts.findIndex((part) => part.dataset.now);
    let next = event.key === "Home" ? 0 : event.key === "End" ? last : now + moves[event.key];
    if (now < 0 && event.key in moves) next = moves[event.key] > 0 ? 0 : last;
    next = Math.max(0, Math.min(last, next));
    if (now >= 0) delete parts[now].dataset.now;
    parts[next].dataset.now = "yes";
    const box = parts[next].getBoundingClientRect();
    say(parts[next], box.left + box.width / 2, box.top + box.height / 2);
  });

  function weaken(figure) {
    const slider = figure.querySelector(".least");
    if (!slider) return;
    const edges = [...figure.querySelectorAll("svg .edge")];
    for (const edge of edges) edge.classList.toggle("weak", Number(edge.dataset.strength) < Number(slider.value) - 1e-9);
    const shown = edges.filter((edge) => !edge.classList.contains("weak")).length;
    figure.querySelector("output").textContent = `${Number(slider.value).toFixed(2)} (${shown} of ${edges.length})`;
  }

  const pick = document.getElementById("pick");
  const picked = document.getElementById("picked");
  function show() {
    const kept = document.querySelector(`template[data-draw="${pick.value}"]`);
    picked.replaceChildren(kept.content.cloneNode(true));
    tip.hidden = true;
    for (const graph of picked.querySelectorAll("svg.graph")) prepare(graph);
    weaken(picked.closest("figure"));
    document.getElementById("earlier").disabled = pick.selectedIndex === 0;
    document.getElementById("later").disabled = pick.selectedIndex === pick.options.length - 1;
  }
  function turn(by) {
    pick.selectedIndex = Math.max(0, Math.min(pick.options.length - 1, pick.selectedIndex + by));
    show();
  }

  for (const graph of document.querySelectorAll("svg.graph")) prepare(graph);
  for (const slider of document.querySelectorAll(".least")) {
    slider.addEventListener("input", () => weaken(slider.closest("figure")));
    weaken(slider.closest("figure"));
  }
  if (pick) {
    pick.addEventListener("change", show);
    document.getElementById("earlier").addEventListener("click", () => turn(-1));
    document.getElementById("later").addEventListener("click", () => turn(1));
    show();
  }
})();
