//! The page: one file without scripts that reads well on a screen, in the dark and on paper.

mod agreement;
mod appendix;
mod introduction;
mod measure;
mod summary;
mod trends;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::figure::Figure;
use super::gather::Gathered;
use super::plots::Album;
use super::words::tidy;
use crate::error::{Complaint, Result};
use crate::results::Stored;

/// How a page is made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The input set that others are compared with, instead of the best of each column.
    pub pinned: Option<String>,
    /// Do `figures/*.svg` and `results.csv` lie beside the page?
    pub beside: bool,
}

/// What the sections of a page are made from.
struct Content<'a> {
    gathered: Gathered<'a>,
    album: Album,
    pinned: Option<usize>,
    beside: bool,
}

/// The report as a page.
pub fn page(title: &str, results: &[Stored], options: &Options) -> Result<String> {
    let gathered = Gathered::of(results);
    let pinned = match &options.pinned {
        None => None,
        Some(name) => {
            let sets = &gathered.sets;
            let place = sets.iter().position(|set| set.label == *name || set.name == *name);
            Some(place.ok_or_else(|| {
                let known: Vec<&str> = sets.iter().map(|set| set.label.as_str()).collect();
                Complaint::new("there is no input set of the name that others shall be compared with")
                    .expected(if known.is_empty() { "no results, so no names".into() } else { known.join(", ") })
                    .found(format!("`{}`", tidy(name)))
            })?)
        }
    };
    let album = Album::of(&gathered);
    let content = Content { gathered, album, pinned, beside: options.beside };
    Ok(document(&tidy(title), if results.is_empty() { nothing() } else { content.body() }).into_string())
}

fn document(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Nothing is fetched and nothing runs, whatever a name may hold.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { h1 { (title) } p.byline { "Measured with Etalon " (env!("CARGO_PKG_VERSION")) } }
                (body)
            }
        }
    }
}

fn nothing() -> Markup {
    html! {
        main id="main" {
            p { "There are no results yet. Run " code { "etalon eval" } " or " code { "etalon run" } ", then make this page again." }
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
                    @if trends { li { a href="#trends" { "What size and sparsity change" } } }
                    @if agreement { li { a href="#agreement" { "Do the measures agree?" } } }
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

    /// A figure with its title, an explanation, and the file that a paper can take.
    fn figure(&self, figure: &Figure, caption: &str) -> Markup {
        html! {
            figure id=(format!("figure-{}", figure.name)) {
                div.canvas tabindex="0" role="region" aria-label=(figure.title) { (PreEscaped(figure.inline())) }
                figcaption {
                    strong { (figure.title) "." } " " (caption)
                    @if self.beside { " " a href=(format!("figures/{}.svg", figure.name)) { "SVG" } }
                }
            }
        }
    }
}

/// A table in a box of its own, which scrolls when it is wider than the page.
fn scrolling(label: &str, table: Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}
