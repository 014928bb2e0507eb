//! What people see: tables, figures and the page around them.
