#pragma once
// The style and the script of a report's page. Used by the page.

#include <soma/base/config.hpp>

#include <string_view>

namespace SOMA_NAMESPACE::neuroncore::detail {

inline constexpr std::string_view page_style = R"(
body { font: 14px/1.4 sans-serif; margin: 1.5em auto; max-width: 1200px; color: #222; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 1.5em; }
.note { background: #fff4d6; padding: .4em .8em; }
table { border-collapse: collapse; } td, th { padding: .1em .8em; text-align: right; }
td.text, th.text { text-align: left; } tr:nth-child(even) { background: #f4f4f4; }
svg { width: 100%; background: #fafafa; cursor: grab; touch-action: none; }
svg text { font-size: 11px; } .tick { stroke: #ddd; } pre { overflow-x: auto; }
)";

// Slices that are narrower than a pixel are drawn together, as one slice with their number.
inline constexpr std::string_view page_script = R"(
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const svg = document.getElementById('timeline');
const width = 1180, label = 130, height = 20, top = 18;
for (const row of data.rows) {
  row.starts = []; row.ends = [];
  let at = 0;
  for (let i = 0; i < row.slices.length; i += 5) {
    at += row.slices[i]; row.starts.push(at);
    at += row.slices[i + 1]; row.ends.push(at);
  }
}
let begin = 0, end = Math.max(data.ns, 1);
const view = /^#(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(location.hash);
if (view && +view[2] > +view[1]) { begin = +view[1]; end = +view[2]; }
function add(parent, tag, attributes, text) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}
function time(ns) {
  return ns >= 1e6 ? (ns / 1e6).toFixed(3) + ' ms' : ns >= 1e3 ? (ns / 1e3).toFixed(3) + ' us'
                                                               : ns.toFixed(0) + ' ns';
}
function first(row) {
  let low = 0, high = row.ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.ends[middle] > begin) high = middle; else low = middle + 1;
  }
  return low;
}
function about(row, i) {
  const at = 5 * i, place = data.places[row.slices[at + 3]];
  const region = data.places[row.slices[at + 4]];
  return data.names[row.slices[at + 2]] + ', ' + time(row.ends[i] - row.starts[i]) + ' from ' +
    time(row.starts[i]) + (place ? ', ' + place : '') + (region ? ', ' + region : '');
}
function draw() {
  svg.textContent = '';
  const scale = (width - label) / (end - begin);
  const step = Math.pow(10, Math.floor(Math.log10((end - begin) / 5)));
  for (let t = Math.ceil(begin / step) * step; t <= end; t += step * 2) {
    const x = label + (t - begin) * scale;
    add(svg, 'line', {x1: x, x2: x, y1: top, y2: top + height * data.rows.length, class: 'tick'});
    add(svg, 'text', {x: x, y: 12}, time(t));
  }
  data.rows.forEach((row, r) => {
    const y = top + r * height;
    add(svg, 'text', {x: 0, y: y + 14, class: 'row'}, row.name.slice(-20));
    for (let i = first(row); i < row.starts.length && row.starts[i] < end;) {
      const from = Math.max(row.starts[i], begin);
      let count = 1, to = row.ends[i], last = i + 1;
      while (last < row.starts.length && row.starts[last] < end &&
             (row.ends[last] - from) * scale < 1) { to = row.ends[last++]; ++count; }
      const rect = add(svg, 'rect', {
        x: label + (from - begin) * scale, y: y + 2, height: height - 4,
        width: Math.max((Math.min(to, end) - from) * scale, 0.5),
        fill: count > 1 ? '#999' : 'hsl(' + row.slices[5 * i + 2] * 47 % 360 + ' 55% 60%)',
        class: 'slice', 'data-count': count});
      add(rect, 'title', {}, count > 1 ? count + ' slices' : about(row, i));
      i = last;
    }
  });
  svg.setAttribute('data-drawn', 'yes');
}
svg.setAttribute('viewBox', '0 0 ' + width + ' ' + (top + height * data.rows.length + 4));
function where(event) {
  const box = svg.getBoundingClientRect();
  return ((event.clientX - box.left) / box.width * width - label) / (width - label);
}
svg.addEventListener('wheel', event => {
  event.preventDefault();
  const at = begin + where(event) * (end - begin), factor = event.deltaY > 0 ? 1.25 : 0.8;
  begin = Math.max(0, at - (at - begin) * factor);
  end = Math.min(Math.max(data.ns, 1), Math.max(at + (end - at) * factor, begin + 1));
  draw();
}, {passive: false});
let held = null;
svg.addEventListener('pointerdown', event => { held = where(event); });
svg.addEventListener('pointerup', () => { held = null; });
svg.addEventListener('pointermove', event => {
  if (held === null) return;
  const moved = (held - where(event)) * (end - begin);
  const shift = Math.max(-begin, Math.min(moved, Math.max(data.ns, end) - end));
  held = where(event); begin += shift; end += shift;
  draw();
});
svg.addEventListener('dblclick', () => { begin = 0; end = Math.max(data.ns, 1); draw(); });
draw();
})();
)";

}  // namespace SOMA_NAMESPACE::neuroncore::detail
