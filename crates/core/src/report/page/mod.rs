//! The HTML page: one file without scripts, for screens (light and dark) and print.

mod agreement;
mod appendix;
mod introduction;
mod measure;
mod summary;
mod trends;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::data::OnData;
use super::figure::Figure;
use super::gather::Gathered;
use super::plots::Album;
use super::words::tidy;
use crate::error::{InputError, Result};
use crate::results::Stored;

/// Options of a page.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The input set that others are compared with, instead of the best of each column.
    pub pinned: Option<String>,
    /// Whether to link to `figures/*.svg` and `results.csv`, which must be in the directory of the page.
    pub beside: bool,
    /// The subfolder of `figures` with this page's figures, if there are several pages.
    pub figures: Option<String>,
}

impl Options {
    /// The folder of the figures, relative to the page.
    pub fn folder(&self) -> String {
        self.figures.as_ref().map_or("figures".into(), |part| format!("figures/{part}"))
    }
}

/// The data of the sections of a page.
struct Content<'a> {
    gathered: Gathered<'a>,
    album: Album,
    pinned: Option<usize>,
    beside: bool,
    /// The folder of the figures.
    folder: String,
    /// The page that links point to; empty on that page itself.
    home: String,
}

/// The report as a page.
pub fn page<'a>(title: &str, results: impl IntoIterator<Item = &'a Stored>, options: &Options) -> Result<String> {
    let gathered = Gathered::of(results);
    let pinned = match &options.pinned {
        None => None,
        Some(name) => {
            let sets = &gathered.sets;
            let pinned = sets.iter().position(|set| set.label == *name || set.name == *name);
            Some(pinned.ok_or_else(|| {
                let known: Vec<&str> = sets.iter().map(|set| set.label.as_str()).collect();
                InputError::new("there is no input set of this name to compare with")
                    .expected(if known.is_empty() { "no results".into() } else { known.join(", ") })
                    .found(format!("`{}`", tidy(name)))
            })?)
        }
    };
    let album = Album::of(&gathered);
    let (folder, home) = (options.folder(), String::new());
    let content = Content { gathered, album, pinned, beside: options.beside, folder, home };
    let is_empty = content.gathered.sets.is_empty();
    Ok(document(&tidy(title), if is_empty { nothing() } else { content.body() }).into_string())
}

/// The first page of a report on several data sets: a summary of each, with a link to its page.
pub fn overview(title: &str, parts: &[OnData<'_>]) -> Result<String> {
    let contents: Vec<(&OnData<'_>, Content<'_>)> = parts
        .iter()
        .map(|part| {
            let gathered = Gathered::of(part.results.iter().copied());
            let (mut album, options) =
                (Album::of(&gathered), Options { figures: Some(part.slug.clone()), ..Options::default() });
            album.sanity.iter_mut().for_each(|figure| figure.on_data(&part.slug, &part.name));
            let (folder, home) = (options.folder(), format!("{}.html", part.slug));
            (part, Content { gathered, album, pinned: None, beside: true, folder, home })
        })
        .collect();
    let body = html! {
        nav aria-label="Contents" {
            ul { @for part in parts { li { a href=(format!("#data-{}", part.slug)) { (part.name) } } } }
        }
        main id="main" {
            @if let Some((_, content)) = contents.first() { (content.introduction()) }
            @for (part, content) in &contents {
                section id=(format!("data-{}", part.slug)) {
                    h2 { "Data: " (part.name) }
                    p { a href=(content.home.as_str()) { "All tables, figures and recipes for " (part.name) } }
                    (content.summary())
                }
            }
        }
    };
    Ok(document(&tidy(title), body).into_string())
}

fn document(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Nothing is loaded or executed, whatever untrusted names contain.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { h1 { (title) } p.byline { "Computed with Etalon " (env!("CARGO_PKG_VERSION")) } }
                (body)
            }
        }
    }
}

fn nothing() -> Markup {
    html! {
        main id="main" {
            p { "There are no results yet. Evaluate some metrics, then create this page again." }
        }
    }
}

impl Content<'_> {
    fn body(&self) -> Markup {
        let trends = !self.album.trends.is_empty();
        let agreement = !self.album.agreement.is_empty();
        html! {
            nav aria-label="Contents" {
                ul {
                    li { a href="#summary" { "Summary" } }
                    @if trends { li { a href="#trends" { "Scores by dictionary size and sparsity" } } }
                    @if agreement { li { a href="#agreement" { "Agreement between measures" } } }
                    @for measure in &self.gathered.measures {
                        li { a href=(format!("#measure-{}", measure.slug)) { (measure.title) } }
                    }
                    li { a href="#recipes" { "Recipes" } }
                }
            }
            main id="main" {
                (self.introduction())
                (self.summary())
                @if trends { (self.trends()) }
                @if agreement { (self.agreement()) }
                @for measure in 0..self.gathered.measures.len() { (self.measure(measure)) }
                (self.appendix())
            }
        }
    }

    /// A figure with its title, a caption, and a link to its SVG file.
    fn figure(&self, figure: &Figure, caption: &str) -> Markup {
        html! {
            figure id=(format!("figure-{}", figure.id())) {
                div.canvas tabindex="0" role="region" aria-label=(figure.title) { (PreEscaped(figure.inline())) }
                figcaption {
                    strong { (figure.title) "." } " " (caption)
                    @if self.beside { " " a href=(format!("{}/{}.svg", self.folder, figure.name)) { "SVG" } }
                }
            }
        }
    }
}

/// The key of a number, which may be broken after underscores.
fn key_code(key: &str) -> Markup {
    html! {
        code {
            @for (index, part) in tidy(key).split('_').enumerate() { @if index > 0 { "_" wbr; } (part) }
        }
    }
}

/// A table that scrolls if it is wider than the page.
fn scrolling(label: &str, table: Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}
