//! Studies: grids of inputs × metrics × seeds, resumable, kept in one results directory.
