//! Derives the activations of units, the similarity of images and the texts of tokens from other inputs.

use std::sync::Arc;

use super::inputs::Inputs;
use super::role::Item;
use super::roles::{
    CODES, DIRECTIONS, DISTANCES, EMBEDDINGS, IMAGE_SIMILARITY, NETWORK, SIMILARITY, TOKENS, UNIT_ACTIVATIONS,
};
use super::token_texts::TokenSource;
use super::unit_activations::{ImageSimilarity, UnitActivations};
use crate::error::{InputError, Result};

impl Inputs {
    /// Adds the activations of units and the similarity of images that follow from the other inputs. Codes are units; without
    /// codes, directions or else the columns of the embeddings are. Embeddings say which images look alike only where
    /// they are not the units themselves.
    pub(super) fn complete_units(&mut self) {
        self.remove(&UNIT_ACTIVATIONS);
        self.remove(&IMAGE_SIMILARITY);
        let (codes, embeddings) = (self.share(&CODES), self.share(&EMBEDDINGS));
        let seen = match (self.share(&DISTANCES), self.share(&SIMILARITY)) {
            (Some(distances), _) => Some(ImageSimilarity::Distances(distances)),
            (None, Some(vectors)) => Some(ImageSimilarity::Vectors(vectors)),
            (None, None) => None,
        };
        let of_embeddings = || embeddings.clone().filter(|_| codes.is_some()).map(ImageSimilarity::Vectors);
        let units = match (&codes, &embeddings, self.share(&DIRECTIONS)) {
            (Some(codes), ..) => Some(UnitActivations::Latents(codes.clone())),
            (None, Some(store), Some(directions)) => Some(UnitActivations::Directions(store.clone(), directions)),
            (None, Some(store), None) => Some(UnitActivations::Neurons(store.clone())),
            (None, None, _) => None,
        };
        if let Some(units) = units {
            self.0.push(Item::new(&UNIT_ACTIVATIONS, "", Arc::new(units)).aliased());
        }
        if let Some(seen) = seen.or_else(of_embeddings) {
            self.0.push(Item::new(&IMAGE_SIMILARITY, "", Arc::new(seen)).aliased());
        }
    }

    /// The tokens of a capture are those of the rows, unless others are given.
    pub(super) fn complete_tokens(&mut self) {
        if let Some(run) = self.share(&NETWORK).filter(|_| !self.has(&TOKENS)) {
            self.0.push(Item::new(&TOKENS, "", Arc::new(TokenSource::Run(run))).aliased());
        }
    }

    /// Refuses two descriptions of which images look alike.
    pub(super) fn check_similarity(&self) -> Result<()> {
        if self.has(&DISTANCES) && self.has(&SIMILARITY) {
            return Err(InputError::new("both distances and vectors of the images are given")
                .expected("one of them")
                .found("distances and similarity")
                .into());
        }
        Ok(())
    }
}
