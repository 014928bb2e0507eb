//! Eight colours after Okabe and Ito, which colour-blind readers can distinguish; two are darkened for contrast on
//! white. `page.css` has lighter variants for dark backgrounds.

/// The colours, in order of use.
pub const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#b7609a", "#3f9fd8", "#b98300", "#767676", "#333333"];
