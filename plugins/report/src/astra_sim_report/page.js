// What a page does to its figures: colours for a dark screen, labels for a narrow one, and legends that hide what they name.
(() => {
  const NARROW = 700;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = () => typeof Bokeh !== "undefined" && Bokeh.documents[0] !== undefined && Bokeh.documents[0].is_idle;
  const models = () => [...Bokeh.documents.flatMap((page) => [...page._all_models.values()])];

  function paint() {
    const [back, text, line, faint] = dark.matches ? ["#16181b", "#cccccc", "#777777", "#33373d"] : ["#ffffff", "#444444", "#666666", "#e5e5e5"];
    const narrow = window.innerWidth < NARROW;
    for (const model of models()) {
      const type = model.type;
      if (type === "Figure" || type === "Plot") {
        model.setv({background_fill_color: back, border_fill_color: back, outline_line_color: faint});
        if (model.tags.length === 0) model.tags = [model.min_border_left ?? 0];
        model.min_border_left = narrow ? 0 : model.tags[0];
      } else if (type.endsWith("Axis")) {
        model.setv({
          axis_label_text_color: text, major_label_text_color: text, axis_line_color: line, minor_tick_line_color: line,
          axis_label_text_font_size: narrow ? "11px" : "13px",
        });
        if (model.major_tick_line_color !== null) model.major_tick_line_color = line;
        if (model.tags.length === 0) model.tags = [model.major_label_text_font_size];
        model.major_label_text_font_size = narrow ? "9px" : model.tags[0];
      } else if (type === "Grid") {
        if (model.grid_line_color !== null) model.grid_line_color = faint;
      } else if (type === "Title") {
        model.setv({text_color: text, text_font_size: narrow ? "12px" : "14px"});
      } else if (type === "ColorBar") {
        model.setv({background_fill_color: back, border_line_color: null, major_label_text_color: text, title_text_color: text});
      }
    }
  }

  function toggle(button) {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    for (const model of models()) if (model.type === "GlyphRenderer" && model.tags.includes(button.dataset.hides)) model.visible = shown;
  }

  function begin() {
    if (!drawn()) { setTimeout(begin, 20); return; }
    paint();
    dark.addEventListener("change", paint);
    let narrow = window.innerWidth < NARROW;
    window.addEventListener("resize", () => {
      if (narrow !== window.innerWidth < NARROW) { narrow = !narrow; paint(); }
    });
    for (const button of document.querySelectorAll("button[data-hides]")) button.addEventListener("click", () => toggle(button));
  }
  window.addEventListener("load", begin);
})();
