//! SVG figures, one file per type of chart, suitable for print: lines of 1.5 pixels, system fonts, colours that
//! colour-blind readers can distinguish, and no information by colour alone.

mod axis;
mod bars;
mod canvas;
mod dots;
mod heat;
mod histogram;
mod lines;
mod palette;
mod scatter;

pub use axis::span;
pub use bars::{Bar, Bars, Panel};
pub use dots::Dots;
pub use heat::{Heat, HeatCell, HeatPanel};
pub use histogram::Histogram;
pub use lines::{Lines, Point, Series};
pub use palette::COLOURS;
pub use scatter::Scatter;

pub use canvas::Stroke;
use canvas::{Canvas, escape};

/// A finished figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its file, without `.svg`.
    pub name: String,
    /// The name of its data set, on pages with several.
    data: Option<String>,
    /// The title.
    pub title: String,
    /// A text alternative for screen readers.
    pub description: String,
    width: f64,
    height: f64,
    body: String,
}

impl Figure {
    fn new(name: &str, title: &str, description: String, canvas: Canvas) -> Figure {
        let (width, height, body) = canvas.finish();
        Figure { name: name.into(), data: None, title: title.into(), description, width, height, body }
    }

    /// Names the data set in the title and in the ids of its elements, for pages with several.
    pub fn on_data(&mut self, slug: &str, name: &str) {
        self.title = format!("{}: {name}", self.title);
        self.data = Some(slug.into());
    }

    /// Its id on a page.
    pub fn id(&self) -> String {
        self.data.as_ref().map_or_else(|| self.name.clone(), |data| format!("{data}-{}", self.name))
    }

    /// For embedding in a page, with the page's text colour.
    pub fn inline(&self) -> String {
        self.svg("", &format!("width=\"{}\" height=\"{}\"", self.width, self.height))
    }

    /// As an SVG file, dark on white.
    pub fn standalone(&self) -> String {
        let space = "xmlns=\"http://www.w3.org/2000/svg\" ";
        let size = format!("width=\"{}\" height=\"{}\" color=\"#1b1f24\"", self.width, self.height);
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", self.svg(space, &size))
    }

    fn svg(&self, space: &str, size: &str) -> String {
        let name = self.id();
        format!(
            "<svg {space}viewBox=\"0 0 {} {}\" {size} role=\"img\" aria-labelledby=\"{name}-title {name}-description\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif\" font-size=\"12\" \
             fill=\"currentColor\"><title id=\"{name}-title\">{}</title><desc id=\"{name}-description\">{}</desc>{}</svg>",
            self.width,
            self.height,
            escape(&self.title),
            escape(&self.description),
            self.body
        )
    }
}
