// The interaction of a flame graph: zoom, search, orientation, sides, keyboard, tooltips.
//
// Knows: how a tree of weights becomes boxes, and what pointer and keys do.
// Leaves to others: the figures and their first drawing (render/flame.py). Names and texts arrive
// sanitised; they are only ever set as text content, never as markup.
//
// The first part has no document in it and is tested on its own.
(function (global) {
  "use strict";

  // Fills in parent, start and last (row after the subtree) of each node, for every side.
  function prepare(data) {
    const n = data.depth.length, stack = [];
    data.parent = new Array(n);
    data.last = new Array(n).fill(n);
    for (let i = 0; i < n; i++) {
      const d = data.depth[i];
      while (stack.length > d) data.last[stack.pop()] = i;
      data.parent[i] = d ? stack[d - 1] : -1;
      stack.push(i);
    }
    for (const side of data.sides) {
      side.isLimited = new Set(side.limited);
      const next = [];
      side.start = new Array(n);
      for (let i = 0; i < n; i++) {
        const d = data.depth[i], p = data.parent[i];
        if (p < 0 && i === 0) next[0] = 0;
        side.start[i] = next[d];
        next[d] += side.weight[i];
        next[d + 1] = side.start[i];
      }
    }
    return data;
  }

  // The boxes of a view: those of the zoomed node's callers, and of all below it that is visible.
  function boxes(data, sideNumber, zoomed, width) {
    const side = data.sides[sideNumber], found = [];
    for (let p = data.parent[zoomed]; p >= 0; p = data.parent[p])
      found.push({ node: p, x: 0, w: width, above: true });
    found.reverse();
    const scale = side.weight[zoomed] ? width / side.weight[zoomed] : 0;
    const from = side.start[zoomed];
    for (let i = zoomed; i < data.last[zoomed]; i++) {
      const w = side.weight[i] * scale;
      if (w < 0.3 && i !== zoomed) { i = data.last[i] - 1; continue; }
      found.push({ node: i, x: (side.start[i] - from) * scale, w: i === zoomed ? width : w });
    }
    return found;
  }

  // Which nodes a test fits, and their weight within a node; what is below a fitting one is in it.
  function match(data, sideNumber, zoomed, test) {
    const side = data.sides[sideNumber], n = data.depth.length, flags = new Uint8Array(n);
    for (let i = 0; i < n; i++) flags[i] = test(i) ? 1 : 0;
    for (let p = data.parent[zoomed]; p >= 0; p = data.parent[p])
      if (flags[p]) return { flags, weight: side.weight[zoomed] };
    let weight = 0;
    for (let i = zoomed; i < data.last[zoomed]; i++)
      if (flags[i]) { weight += side.weight[i]; i = data.last[i] - 1; }
    return { flags, weight };
  }

  // A test of nodes by their names.
  function named(data, pattern) {
    const fits = data.names.map((name) => pattern.test(name[0]));
    return (node) => fits[data.name[node]];
  }

  function percent(part, whole) {
    return whole ? (100 * part / whole).toFixed(2) + "%" : "0.00%";
  }

  function grouped(n) {
    return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
  }

  function threeDigits(x) {
    if (x >= 999.5) return grouped(Math.round(x));
    if (x === 0) return "0";
    return x.toPrecision(3);
  }

  function duration(ns) {
    if (ns === null || ns === undefined) return "–";
    for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]])
      if (ns >= 0.9995 * size) return threeDigits(ns / size) + " " + unit;
    return (Number.isInteger(ns) ? ns : threeDigits(ns)) + " ns";
  }

  function amount(data, weight) {
    return data.is_time ? duration(weight) : grouped(weight) + " " + data.unit;
  }

  // How a function was found; the first caller that is not itself inlined is where it is inlined.
  function found(data, node) {
    const text = data.names[data.name[node]][3];
    if (!text.includes("%")) return text;
    let p = data.parent[node];
    while (p >= 0 && data.names[data.name[p]][3].includes("%")) p = data.parent[p];
    return text.replace("%", p >= 0 ? data.names[data.name[p]][0] : "its caller");
  }

  // What a tooltip says: pairs of title and text.
  function details(data, sideNumber, zoomed, node) {
    const rows = [], [, module, area] = data.names[data.name[node]];
    if (module) rows.push(["module", module]);
    for (const number of data.sides.length > 1 ? [0, 1] : [0]) {
      const side = data.sides[number], label = data.sides.length > 1 ? side.label + " " : "";
      rows.push([label + "inclusive",
        percent(side.weight[node], side.total) + "  " + amount(data, side.weight[node])]);
      rows.push([label + "self",
        percent(side.own[node], side.total) + "  " + amount(data, side.own[node])]);
      const calls = side.calls && side.calls[node];
      if (calls) {
        const [count, avg, p99, max, off, open] = calls;
        rows.push([label + "calls", grouped(count) + (open ? ", " + open + " did not return" : "")]);
        if (avg !== null) rows.push([label + "avg, p99, max", [avg, p99, max].map(duration).join(", ")]);
        else if (!open) rows.push([label + "times", "only counted, not timed"]);
        if (off !== null) rows.push([label + "off-CPU", duration(off)]);
        if (side.isLimited.has(node)) rows.push([label + "caution", "overhead-limited: the probes' own time is as large as the rest"]);
      }
    }
    if (zoomed > 0) {
      const side = data.sides[sideNumber];
      rows.push(["of the zoomed", percent(side.weight[node], side.weight[zoomed])]);
    }
    if (data.steps) rows.push(["change", data.looks[data.steps[node]][0]]);
    rows.push(["area", data.areas[area]]);
    if (found(data, node)) rows.push(["found", found(data, node)]);
    return rows;
  }

  global.faultprofFlame = { prepare, boxes, match, named, details, duration, grouped, percent, found };
  if (typeof document === "undefined") return;

  const SVG = "http://www.w3.org/2000/svg", HTML = "http://www.w3.org/1999/xhtml";

  function svgElement(name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function htmlElement(name, attributes, text) {
    const element = document.createElementNS(HTML, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function mount(svg) {
    const data = prepare(JSON.parse(svg.querySelector("script.fp-data").textContent));
    const { row, char, pad } = data.geometry, line = 17;
    const view = { zoomed: 0, icicle: data.icicle, side: data.sides.length - 1, width: 0, found: null, focus: -1 };
    const part = (name) => svg.querySelector(".fp-" + name);
    const alone = svg === document.documentElement || svg.parentNode === document.body;
    const body = part("frames"), chrome = part("chrome"), legend = part("legend");
    const bar = toolbar(), tip = tooltip();
    let shown = [], rects = new Map(), top = 0;

    function wrapped(text, chars) {
      const lines = [""];
      for (const word of text.split(" "))
        if ((lines[lines.length - 1] + " " + word).length > chars && lines[lines.length - 1]) lines.push(word);
        else lines[lines.length - 1] += (lines[lines.length - 1] ? " " : "") + word;
      return lines;
    }

    function texts(list, y) {
      for (const [kind, text] of list)
        for (const one of wrapped(text, Math.floor((view.width - 2 * pad) / (kind === "title" ? char * 1.25 : char)))) {
          y += kind === "title" ? line + 3 : line;
          chrome.append(svgElement("text", { x: pad, y, class: "fp-" + kind }, one));
        }
      return y;
    }

    function width() {
      const room = alone ? document.documentElement.clientWidth || global.innerWidth : svg.parentNode.clientWidth;
      return Math.max(320, Math.floor(room || data.geometry.width));
    }

    function draw() {
      view.width = width();
      chrome.textContent = body.textContent = "";
      rects = new Map();
      let y = texts(data.head, pad / 2) + 8;
      bar.holder.setAttribute("y", y);
      bar.holder.setAttribute("width", view.width);
      bar.holder.setAttribute("height", bar.height = view.width < 700 ? 62 : 32);
      y += bar.height + 2;
      const inner = view.width - 2 * pad;
      shown = boxes(data, view.side, view.zoomed, inner);
      const rows = 1 + shown.reduce((most, box) => Math.max(most, data.depth[box.node]), 0);
      top = y;
      for (const box of shown) {
        const depth = data.depth[box.node];
        box.y = y + (view.icicle ? depth : rows - 1 - depth) * row;
        body.append(frame(box));
      }
      y = flow(y + rows * row + 14);
      y = texts(data.foot.concat(data.sides.length > 1 ? data.sides[view.side].foot : []), y);
      y += pad;
      svg.setAttribute("width", view.width);
      svg.setAttribute("height", y);
      svg.setAttribute("viewBox", `0 0 ${view.width} ${y}`);
      part("back").setAttribute("width", view.width);
      part("back").setAttribute("height", y);
      outline();
    }

    function lookOf(node) {
      return data.steps ? data.steps[node] : data.names[data.name[node]][2];
    }

    function frame(box) {
      const [, fill, ink] = data.looks[lookOf(box.node)], name = data.names[data.name[box.node]];
      const group = svgElement("g", { class: "fp-frame", "data-node": box.node });
      const w = Math.max(0.3, box.w - (box.w > 3 ? 0.8 : 0));
      const shape = { x: pad + box.x, y: box.y, width: w, height: row - 1, rx: w > 6 ? 2 : 0 };
      group.append(svgElement("rect", { ...shape, fill, class: "fp-fill" }));
      for (const mark of [name[4], data.sides[view.side].isLimited.has(box.node) ? "overhead-limited" : ""])
        if (mark) group.append(svgElement("rect", { ...shape, fill: `url(#${data.id}-${mark}-${ink === "#ffffff" ? "light" : "dark"})`, class: "fp-pattern" }));
      const room = Math.floor((w - 7) / char);
      if (room >= 3) {
        const label = name[5].length > room ? name[5].slice(0, room - 1) + "…" : name[5];
        group.append(svgElement("text", { x: pad + box.x + 4, y: box.y + row - 6, fill: ink, class: name[4] ? "fp-mark" : "" }, label));
      }
      if (box.above) group.classList.add("fp-above");
      if (view.found && !view.found.flags[box.node]) group.classList.add("fp-faded");
      rects.set(box.node, box);
      return group;
    }

    function flow(y) {
      let x = pad;
      for (const item of legend.children) {
        const w = +item.getAttribute("data-width");
        if (x > pad && x + w > view.width - pad) { x = pad; y += line; }
        item.setAttribute("transform", `translate(${x} ${y})`);
        x += w;
      }
      return y + line + 4;
    }

    function zoom(node) {
      view.zoomed = node;
      view.focus = node;
      if (view.test) search(view.test, true);
      draw();
      say();
      tip.hide();
    }

    function search(test, silent) {
      view.test = test;
      view.found = test && match(data, view.side, view.zoomed, test);
      if (!silent) { draw(); say(); }
    }

    function say() {
      const side = data.sides[view.side];
      let text = "";
      if (view.found) {
        text = `matched ${percent(view.found.weight, view.zoomed ? side.weight[view.zoomed] : side.total)}`;
        if (view.zoomed) text += " of the zoomed";
      } else if (view.zoomed) text = `zoomed ${percent(side.weight[view.zoomed], side.total)}`;
      bar.status.textContent = text;
      bar.reset.disabled = !view.zoomed && !view.found;
      if (bar.swap) bar.swap.textContent = `Width: ${side.label}`;
      bar.flip.textContent = view.icicle ? "Flame" : "Icicle";
    }

    function typed() {
      const text = bar.input.value;
      bar.input.classList.remove("fp-wrong");
      if (!text) return search(null);
      let pattern;
      try {
        pattern = new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
      } catch (error) {
        bar.input.classList.add("fp-wrong");
        bar.status.textContent = "not a regular expression";
        return;
      }
      search(named(data, pattern));
    }

    function reset() {
      bar.input.value = "";
      for (const item of legend.children) item.classList.remove("fp-chosen");
      view.zoomed = 0; view.focus = -1;
      search(null);
    }

    function swap() {
      if (data.sides.length < 2) return;
      view.side = 1 - view.side;
      if (!data.sides[view.side].weight[view.zoomed]) view.zoomed = 0;
      if (view.test) search(view.test, true);
      draw(); say();
    }

    function flip() { view.icicle = !view.icicle; draw(); say(); }

    function toolbar() {
      const holder = svgElement("foreignObject", { x: 0, y: 0, width: 100, height: 32, class: "fp-bar" });
      const box = htmlElement("div", { class: "fp-tools" });
      const button = (text, title, action) => {
        const one = htmlElement("button", { type: "button", title }, text);
        one.addEventListener("click", action);
        box.append(one);
        return one;
      };
      const input = htmlElement("input", { type: "search", placeholder: "search: regular expression  (/)", "aria-label": "search by regular expression", spellcheck: "false" });
      box.append(input);
      const reset_ = button("Reset", "Esc", reset);
      const flip_ = button("Icicle", "i", flip);
      const swap_ = data.sides.length > 1 ? button("Width", "s: swap sides", swap) : null;
      button("?", "keys", () => help());
      const status = htmlElement("output", { class: "fp-status", "aria-live": "polite" });
      box.append(status);
      holder.append(box);
      svg.append(holder);
      input.addEventListener("input", typed);
      return { holder, input, status, reset: reset_, flip: flip_, swap: swap_, height: 32 };
    }

    function help() {
      bar.status.textContent = "click: zoom · / search · Esc back · arrows: move · Enter: zoom · i: flip" + (data.sides.length > 1 ? " · s: swap" : "") + " · legend: show an area";
    }

    function tooltip() {
      const holder = svgElement("foreignObject", { x: 0, y: 0, width: 10, height: 10, class: "fp-tipholder" });
      const box = htmlElement("div", { class: "fp-tip", role: "tooltip" });
      holder.append(box);
      svg.append(holder);
      holder.style.display = "none";
      return {
        hide() { holder.style.display = "none"; },
        show(node, x, y) {
          box.textContent = "";
          box.append(htmlElement("strong", {}, data.names[data.name[node]][0]));
          const table = htmlElement("table", {});
          for (const [title, text] of details(data, view.side, view.zoomed, node)) {
            const tr = htmlElement("tr", {});
            tr.append(htmlElement("th", {}, title), htmlElement("td", {}, text));
            table.append(tr);
          }
          box.append(table);
          const room = Math.min(440, view.width - 2 * pad);
          holder.setAttribute("width", room);
          holder.style.display = "";
          const height = box.offsetHeight + 8, total = +svg.getAttribute("height");
          holder.setAttribute("height", height);
          holder.setAttribute("x", Math.max(pad, Math.min(x + 14, view.width - room - pad)));
          holder.setAttribute("y", y + 18 + height > total ? Math.max(0, y - height - 8) : y + 18);
        },
      };
    }

    function nodeOf(event) {
      const group = event.target.closest && event.target.closest(".fp-frame");
      return group ? +group.getAttribute("data-node") : -1;
    }

    function outline() {
      const old = body.querySelector(".fp-focus");
      if (old) old.remove();
      const box = rects.get(view.focus);
      if (box) body.append(svgElement("rect", { x: pad + box.x, y: box.y, width: Math.max(1, box.w - 0.8), height: row - 1, rx: 2, class: "fp-focus" }));
    }

    function move(key) {
      const up = view.icicle ? "ArrowUp" : "ArrowDown", at = view.focus;
      const drawn = (test) => shown.filter((box) => test(box.node)).map((box) => box.node);
      if (!rects.has(at)) view.focus = view.zoomed;
      else if (key === up) view.focus = data.parent[at] >= 0 ? data.parent[at] : at;
      else if (key === "ArrowUp" || key === "ArrowDown")
        view.focus = drawn((i) => data.parent[i] === at).sort((a, b) => data.sides[view.side].weight[b] - data.sides[view.side].weight[a])[0] ?? at;
      else {
        const level = drawn((i) => data.depth[i] === data.depth[at]), place = level.indexOf(at);
        view.focus = level[place + (key === "ArrowLeft" ? -1 : 1)] ?? at;
      }
      outline();
      const box = rects.get(view.focus);
      if (box) tip.show(view.focus, pad + box.x, box.y);
    }

    body.addEventListener("click", (event) => { const node = nodeOf(event); if (node >= 0) zoom(node); });
    body.addEventListener("mousemove", (event) => {
      const node = nodeOf(event), at = svg.getBoundingClientRect();
      if (node >= 0) tip.show(node, event.clientX - at.left, event.clientY - at.top); else tip.hide();
    });
    body.addEventListener("mouseleave", tip.hide);
    legend.addEventListener("click", (event) => {
      const item = event.target.closest("[data-look]");
      if (!item) return;
      const chosen = item.classList.contains("fp-chosen"), number = +item.getAttribute("data-look");
      for (const one of legend.children) one.classList.remove("fp-chosen");
      bar.input.value = "";
      if (chosen) return search(null);
      item.classList.add("fp-chosen");
      search((node) => lookOf(node) === number);
    });
    // A flame graph in a page listens only while it has the focus; alone it always does.
    (alone ? document : svg).addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.target === bar.input && event.key !== "Escape") return;
      const key = event.key;
      if (key === "/") bar.input.focus();
      else if (key === "Escape") {
        tip.hide();
        bar.input.blur();
        if (view.found) { bar.input.value = ""; for (const one of legend.children) one.classList.remove("fp-chosen"); search(null); }
        else if (view.zoomed) zoom(Math.max(0, data.parent[view.zoomed]));
      }
      else if (key === "i") flip();
      else if (key === "s") swap();
      else if (key === "?") help();
      else if (key === "Enter") { if (event.target.localName === "button") return; if (rects.has(view.focus)) zoom(view.focus); }
      else if (key.startsWith("Arrow")) move(key);
      else return;
      event.preventDefault();
    });
    global.addEventListener("resize", () => { if (width() !== view.width) draw(); });
    global.addEventListener("beforeprint", tip.hide);
    svg.setAttribute("tabindex", "0");
    for (const title of body.querySelectorAll("title")) title.remove();
    draw();
    say();
  }

  for (const svg of document.querySelectorAll("svg.fp-flame")) mount(svg);
})(typeof globalThis === "undefined" ? this : globalThis);
