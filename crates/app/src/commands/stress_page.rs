//! The page of a reviewer of `etalon stress`.

const STYLE: &str = "\
    :root{color-scheme:light dark}\
    body{font:16px/1.4 system-ui,sans-serif;margin:2em auto;padding:0 1em;max-width:72em}\
    main{display:grid;grid-template-columns:repeat(auto-fill,minmax(16em,1fr));gap:1em}\
    figure{margin:0}img{width:100%;border-radius:4px;background:#eceff2}figcaption{font-weight:600}";

/// The images in the order of a reviewer.
pub(super) fn page(concept: &str, order: &[usize], files: &[String]) -> String {
    let concept = escaped(concept);
    let figures = order.iter().filter_map(|&number| {
        let file = files.get(number)?;
        Some(format!(
            "<figure><img loading=\"lazy\" alt=\"\" src=\"{file}\"><figcaption>{number}</figcaption></figure>"
        ))
    });
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Review</title><style>{STYLE}</style></head><body><h1>Does the image show: {concept}?</h1><p>Write yes or no into the column \
         <code>depicted</code> of your sheet, beside the number of the image.</p><main>{}</main></body></html>\n",
        figures.collect::<String>()
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let page = page("a <b> & \"c\"", &[1, 0], &["images/0.png".into(), "images/1.png".into()]);
        assert!(page.contains("a &lt;b&gt; &amp; &quot;c&quot;") && !page.contains("<b>"));
        assert!(page.find("images/1.png") < page.find("images/0.png"));
    }
}
