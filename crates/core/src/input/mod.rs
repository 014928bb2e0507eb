//! The gate: the only code that parses foreign bytes. What passes is checked arrays and tables.
