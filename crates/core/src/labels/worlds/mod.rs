//! Worlds.
