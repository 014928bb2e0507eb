//! Which latents are clamped.

/// Latents whose frequency on the texts to retain is below the threshold, by their frequency on the texts to forget,
/// descending; ties by index. Those that never fire on the texts to forget are left out. At most `count`.
pub(super) fn select(forget: &[f64], retain: &[f64], threshold: f64, count: usize) -> Vec<u32> {
    let mut latents: Vec<(f64, u32)> = forget
        .iter()
        .zip(retain)
        .zip(0..)
        .filter(|((forget, retain), _)| **retain < threshold && **forget > 0.0)
        .map(|((forget, _), latent)| (*forget, latent))
        .collect();
    latents.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    latents.truncate(count);
    latents.into_iter().map(|(_, latent)| latent).collect()
}
