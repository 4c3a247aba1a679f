// Stylesheets do not apply to text on a canvas: set the page's colour, in light and dark. On load this runs before
// unfold draws the charts.
const setTextColor = () => {
  const colour = getComputedStyle(document.body).color;
  Chart.defaults.color = colour;
  for (const chart of Object.values(Chart.instances)) {
    for (const axis of Object.values(chart.options.scales)) axis.ticks.color = colour;
    chart.update();
  }
};
window.addEventListener("load", setTextColor);
new MutationObserver(setTextColor).observe(document.documentElement, { attributeFilter: ["class"] });
