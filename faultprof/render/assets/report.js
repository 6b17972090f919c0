// The page's tables: a call tree that unfolds, however many nodes it has, and tables that sort.
//
// Knows: which rows of the tree are visible; only these exist, so that 50,000 nodes are no burden.
// Leaves to others: the figures, which are the flame graph's (flame.js), and the other tables,
// which are in the page already (render/html).
(function (global) {
  "use strict";

  const F = global.faultprofFlame, ROW = 22, EDGE = 12;

  // The tree's columns: title, what to sort by, what to show, whether it is a share, and whether
  // it is left out where there is little room.
  function columns(data) {
    const all = [], two = data.sides.length > 1;
    const share = (side, weight) => side.total ? 100 * weight / side.total : 0;
    for (const side of data.sides) {
      const label = two ? side.label + " " : "";
      all.push({ title: label + "incl.", value: (i) => side.weight[i], text: (i) => F.percent(side.weight[i], side.total), share: (i) => share(side, side.weight[i]) });
      all.push({ title: label + "self", value: (i) => side.own[i], text: (i) => F.percent(side.own[i], side.total), extra: true });
    }
    if (two) {
      const [a, b] = data.sides, points = (i) => share(b, b.weight[i]) - share(a, a.weight[i]);
      const kind = (i) => data.steps[i] > 3 ? "more" : data.steps[i] < 3 ? "less" : "";
      all.push({ title: "change", value: (i) => Math.abs(points(i)), text: (i) => (points(i) < 0 ? "" : "+") + points(i).toFixed(2) + " pp", kind });
    }
    for (const side of data.sides) {
      if (!side.calls) continue;
      const label = two ? side.label + " " : "", calls = (i, which) => side.calls[i] && side.calls[i][which];
      all.push({ title: label + "calls", value: (i) => calls(i, 0) || 0, text: (i) => side.calls[i] ? F.grouped(side.calls[i][0]) : "", extra: true });
      for (const [title, which] of two ? [["avg", 1]] : [["avg", 1], ["p99", 2], ["max", 3], ["off-CPU", 4]])
        all.push({ title: label + title, value: (i) => calls(i, which) || 0, text: (i) => side.calls[i] ? F.duration(calls(i, which)) : "", extra: true });
      if (side.histograms) all.push({ title: label + "durations", histogram: side.histograms, extra: true });
    }
    return all;
  }

  // The nodes below each node; -1 stands for none.
  function children(data) {
    const below = new Map([[-1, []]]);
    data.parent.forEach((parent, node) => {
      if (!below.has(parent)) below.set(parent, []);
      below.get(parent).push(node);
    });
    return below;
  }

  // The visible nodes in their order.
  function flatten(below, unfolded, value) {
    const rows = [], waiting = [];
    const push = (nodes) => {
      const sorted = value ? nodes.slice().sort((a, b) => value(b) - value(a) || a - b) : nodes;
      for (let i = sorted.length - 1; i >= 0; i--) waiting.push(sorted[i]);
    };
    push(below.get(-1));
    while (waiting.length) {
      const node = waiting.pop();
      rows.push(node);
      if (unfolded.has(node) && below.has(node)) push(below.get(node));
    }
    return rows;
  }

  global.faultprofTree = { columns, children, flatten };
  if (typeof document === "undefined") return;

  function element(name, kind, text) {
    const one = document.createElement(name);
    if (kind) one.className = kind;
    if (text !== undefined) one.textContent = text;
    return one;
  }

  function tree(holder) {
    const data = F.prepare(JSON.parse(document.querySelector("script.fp-data").textContent));
    const below = children(data), cols = columns(data), unfolded = new Set();
    const buckets = range();
    let rows = [], sorting = null, chosen = -1, whole = false;
    const table = element("table"), head = element("tr"), body = element("tbody");
    table.append(element("thead"), body);
    table.tHead.append(head);
    holder.append(table);
    if (data.sides.length > 1) holder.classList.add("two");
    cols.forEach((column) => {
      const th = element("th", "number" + (column.extra ? " extra" : ""), column.title);
      th.scope = "col";
      if (column.value) th.addEventListener("click", () => sort(column, th));
      head.append(th);
    });
    head.append(element("th", "", "function"));

    function range() {
      let first = Infinity, last = 0;
      for (const side of data.sides) for (const one of side.histograms || [])
        for (let k = 0; one && k < one.length; k += 2) { first = Math.min(first, one[k]); last = Math.max(last, one[k]); }
      return [first, last + 1];
    }

    function spark(counts) {
      const cell = element("td", "extra");
      if (!counts) return cell;
      const [first, end] = buckets, width = 96, step = width / (end - first);
      let most = 0, path = "";
      for (let k = 1; k < counts.length; k += 2) most = Math.max(most, counts[k]);
      for (let k = 0; k < counts.length; k += 2) {
        const h = Math.max(1, 15 * counts[k + 1] / most);
        path += `M${((counts[k] - first) * step).toFixed(1)} 16v${-h.toFixed(1)}h${Math.max(0.7, step - 0.4).toFixed(1)}v${h.toFixed(1)}z`;
      }
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), bars = document.createElementNS("http://www.w3.org/2000/svg", "path");
      svg.setAttribute("class", "spark"); svg.setAttribute("width", width); svg.setAttribute("height", 17);
      bars.setAttribute("d", path);
      svg.append(bars); cell.append(svg);
      return cell;
    }

    function row(node) {
      const tr = element("tr", node === chosen ? "chosen" : ""), name = data.names[data.name[node]];
      tr.dataset.node = node;
      for (const column of cols) {
        if (column.histogram) { tr.append(spark(column.histogram[node])); continue; }
        const td = element("td", "number " + (column.share ? "share " : "") + (column.extra ? "extra " : "") + (column.kind ? column.kind(node) : ""), column.text(node));
        if (column.share) td.style.setProperty("--share", column.share(node).toFixed(1) + "%");
        tr.append(td);
      }
      const cell = element("td", "name");
      cell.style.paddingLeft = 8 + EDGE * Math.min(data.depth[node], 40) + "px";
      cell.append(element("span", "fold", below.has(node) ? (unfolded.has(node) ? "▾" : "▸") : ""));
      const swatch = element("span", "swatch");
      swatch.style.background = data.colours[name[2]];
      swatch.title = data.areas[name[2]];
      cell.append(swatch, name[5]);
      const how = F.found(data, node);
      if (how) cell.title = how;
      tr.append(cell);
      return tr;
    }

    function spacer(count) {
      const tr = element("tr", "spacer");
      tr.style.height = count * ROW + "px";
      return tr;
    }

    function show() {
      const first = whole ? 0 : Math.max(0, Math.floor(holder.scrollTop / ROW) - 10);
      const last = whole ? rows.length : Math.min(rows.length, first + Math.ceil(holder.clientHeight / ROW) + 20);
      body.textContent = "";
      if (first) body.append(spacer(first));
      for (let k = first; k < last; k++) body.append(row(rows[k]));
      if (last < rows.length) body.append(spacer(rows.length - last));
    }

    function refresh() {
      rows = flatten(below, unfolded, sorting);
      show();
    }

    function sort(column, th) {
      for (const one of head.children) one.removeAttribute("aria-sort");
      sorting = sorting === column.value ? null : column.value;
      if (sorting) th.setAttribute("aria-sort", "descending");
      refresh();
    }

    function toggle(node, open) {
      if (open === undefined) open = !unfolded.has(node);
      if (open) unfolded.add(node); else unfolded.delete(node);
      refresh();
    }

    function choose(node) {
      chosen = node;
      const place = rows.indexOf(node), top = place * ROW;
      if (top < holder.scrollTop) holder.scrollTop = top;
      else if (top + 3 * ROW > holder.scrollTop + holder.clientHeight) holder.scrollTop = top + 3 * ROW - holder.clientHeight;
      show();
    }

    const status = document.getElementById("tree-status"), find = document.getElementById("tree-find");

    function next() {
      let pattern;
      find.classList.remove("wrong");
      if (!find.value) { status.textContent = ""; return; }
      try { pattern = new RegExp(find.value, /[A-Z]/.test(find.value) ? "" : "i"); }
      catch (error) { find.classList.add("wrong"); status.textContent = "not a regular expression"; return; }
      const fits = data.names.map((name) => pattern.test(name[0])), found = [];
      data.name.forEach((name, node) => { if (fits[name]) found.push(node); });
      if (!found.length) { status.textContent = "not found"; return; }
      const at = found.find((node) => node > chosen) ?? found[0];
      for (let p = data.parent[at]; p >= 0; p = data.parent[p]) unfolded.add(p);
      status.textContent = `${found.indexOf(at) + 1} of ${found.length} (Enter: next)`;
      refresh();
      choose(at);
    }

    function hottest() {
      const side = data.sides[data.sides.length - 1];
      let node = -1;
      while (below.has(node)) {
        node = below.get(node).reduce((a, b) => side.weight[b] > side.weight[a] ? b : a);
        unfolded.add(node);
      }
      refresh();
      choose(node);
    }

    body.addEventListener("click", (event) => {
      const tr = event.target.closest("tr[data-node]");
      if (!tr) return;
      holder.focus({ preventScroll: true });
      chosen = +tr.dataset.node;
      toggle(chosen);
    });
    holder.addEventListener("scroll", () => requestAnimationFrame(show));
    holder.addEventListener("keydown", (event) => {
      const place = rows.indexOf(chosen), key = event.key;
      if (key === "ArrowDown") choose(rows[Math.min(rows.length - 1, place + 1)]);
      else if (key === "ArrowUp") choose(rows[Math.max(0, place - 1)]);
      else if (key === "ArrowRight") { if (unfolded.has(chosen)) choose(rows[Math.min(rows.length - 1, place + 1)]); else toggle(chosen, true); }
      else if (key === "ArrowLeft") { if (unfolded.has(chosen)) toggle(chosen, false); else if (data.parent[chosen] >= 0) choose(data.parent[chosen]); }
      else if (key === "Enter" || key === " ") toggle(chosen);
      else return;
      event.preventDefault();
    });
    find.addEventListener("input", () => { chosen = -1; next(); });
    find.addEventListener("keydown", (event) => { if (event.key === "Enter") next(); });
    document.getElementById("tree-hot").addEventListener("click", hottest);
    document.getElementById("tree-all").addEventListener("click", () => { for (const node of below.keys()) unfolded.add(node); refresh(); });
    document.getElementById("tree-none").addEventListener("click", () => { unfolded.clear(); chosen = -1; holder.scrollTop = 0; refresh(); });
    // On paper there is no scrolling: all unfolded rows, within reason.
    global.addEventListener("beforeprint", () => { whole = rows.length <= 3000; show(); });
    global.addEventListener("afterprint", () => { whole = false; show(); });
    global.addEventListener("resize", show);

    data.parent.forEach((parent, node) => {
      if (data.sides.some((side) => side.weight[node] > 0.03 * side.total)) unfolded.add(node);
    });
    refresh();
    if (rows.length * ROW + 40 < holder.clientHeight) holder.style.height = Math.max(180, rows.length * ROW + 60) + "px";
    show();
  }

  function sortable(table) {
    [...table.tHead.rows[0].cells].forEach((th, column) => th.addEventListener("click", () => {
      const down = th.getAttribute("aria-sort") !== "descending";
      for (const one of th.parentNode.children) one.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (tr) => { const cell = tr.cells[column]; return "value" in cell.dataset ? +cell.dataset.value : cell.textContent; };
      const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;
      const sign = down ? -1 : 1;  // not reversed: equal rows keep their order
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => sign * compare(key(a), key(b))));
    }));
  }

  tree(document.getElementById("tree"));
  document.querySelectorAll("table.sortable").forEach(sortable);
})(typeof globalThis === "undefined" ? this : globalThis);
