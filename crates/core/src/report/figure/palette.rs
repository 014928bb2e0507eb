//! Eight colours after Okabe and Ito that people with any colour vision can tell apart, two of them darkened to stand
//! out on white. `page.css` has their lighter twins for a dark background.

/// The colours, in the order in which they are given out.
pub const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#b7609a", "#3f9fd8", "#b98300", "#767676", "#333333"];
