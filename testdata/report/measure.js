// Tells the page around this one what is to be seen of each chart.
(function () {
  "use strict";
  function seen(e) {
    var r = e.getBoundingClientRect(), s = getComputedStyle(e);
    return s.visibility !== "hidden" && s.display !== "none" && s.opacity !== "0" && (r.width > 0 || r.height > 0) &&
      (s.fill !== "none" || (s.stroke !== "none" && parseFloat(s.strokeWidth) > 0));
  }
  var width = document.documentElement.clientWidth;
  var out = { Width: width, Scroll: document.documentElement.scrollWidth, Charts: [], Outside: [] };
  document.querySelectorAll("main *").forEach(function (e) {
    var r = e.getBoundingClientRect();
    if (r.right > width + 1 && r.width > 0 && !e.closest(".wide")) { out.Outside.push(e.tagName + " " + e.className + " " + Math.round(r.right)); }
  });
  document.querySelectorAll("figure.chart svg").forEach(function (svg) {
    var box = svg.getBoundingClientRect();
    var chart = { Name: svg.getAttribute("aria-label"), Width: box.width, Height: box.height, Paths: 0, Texts: [], Outside: [], Overlap: [] };
    svg.querySelectorAll("path").forEach(function (p) { if (seen(p)) { chart.Paths++; } });
    var texts = [];
    svg.querySelectorAll("text").forEach(function (t) {
      if (!t.textContent || !seen(t)) { return; }
      var r = t.getBoundingClientRect();
      chart.Texts.push(t.textContent);
      if (r.left < box.left - 2 || r.right > box.right + 2 || r.top < box.top - 2 || r.bottom > box.bottom + 2) { chart.Outside.push(t.textContent); }
      texts.push({ text: t.textContent, r: r });
    });
    for (var i = 0; i < texts.length; i++) {
      for (var j = i + 1; j < texts.length; j++) {
        var a = texts[i].r, b = texts[j].r;
        var x = Math.min(a.right, b.right) - Math.max(a.left, b.left), y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // Boxes are higher than letters: a third of a line is air.
        if (x > 2 && y > Math.min(a.height, b.height) / 3) { chart.Overlap.push(texts[i].text + " | " + texts[j].text); }
      }
    }
    out.Charts.push(chart);
  });
  parent.postMessage(JSON.stringify(out), "*");
})();
