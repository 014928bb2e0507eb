//! Dictionaries: what turns activations into codes and back.
