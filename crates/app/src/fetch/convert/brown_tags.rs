//! Parts of speech of the Brown corpus, reduced to the classes that most languages have.

/// The part of speech of a tag, such as `noun` for `nn-tl`.
pub fn part_of_speech(tag: &str) -> &'static str {
    // `fw-` marks foreign words, `-tl`, `-hl` and `-nc` titles, headlines and cited words.
    let tag = tag.strip_prefix("fw-").unwrap_or(tag);
    let ends = ["-tl", "-hl", "-nc"];
    let mut tag = tag;
    while let Some(shorter) = ends.iter().find_map(|end| tag.strip_suffix(end)) {
        tag = shorter;
    }
    // A contraction such as `ppss+bem` (I'm) counts as its first word; `dod*` (didn't) is negated.
    let tag = tag.split('+').next().unwrap_or(tag);
    let tag = if tag.len() > 1 { tag.trim_end_matches('*') } else { tag };
    match tag.trim_end_matches('$') {
        "nn" | "nns" | "np" | "nps" | "nr" | "nrs" | "nrns" => "noun",
        "vb" | "vbd" | "vbg" | "vbn" | "vbz" | "md" => "verb",
        "be" | "bed" | "bedz" | "beg" | "bem" | "ben" | "ber" | "bez" => "verb",
        "do" | "dod" | "doz" | "hv" | "hvd" | "hvg" | "hvn" | "hvz" => "verb",
        "jj" | "jjr" | "jjs" | "jjt" => "adjective",
        "rb" | "rbr" | "rbt" | "rn" | "ql" | "qlp" | "wrb" | "wql" => "adverb",
        "pp" | "ppl" | "ppls" | "ppo" | "pps" | "ppss" | "pn" | "wp" | "wpo" | "wps" | "ex" => "pronoun",
        "at" | "ap" | "abl" | "abn" | "abx" | "dt" | "dti" | "dts" | "dtx" | "wdt" => "determiner",
        "in" => "adposition",
        "cc" | "cs" => "conjunction",
        "cd" | "od" => "number",
        "to" | "rp" | "*" => "particle",
        tag if !tag.starts_with(|c: char| c.is_ascii_alphabetic()) => "punctuation",
        // Interjections and what the corpus left untagged.
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::part_of_speech;

    #[test]
    fn tags_are_reduced() {
        for (tag, expected) in [
            ("nn-tl", "noun"),
            ("np$", "noun"),
            ("fw-nn-tl-hl", "noun"),
            ("ppss+bem", "pronoun"),
            ("pp$$", "pronoun"),
            ("dod*", "verb"),
            ("*", "particle"),
            ("``", "punctuation"),
            ("--", "punctuation"),
            (".-hl", "punctuation"),
            ("jjt", "adjective"),
            ("uh", "other"),
            ("nil", "other"),
        ] {
            assert_eq!(part_of_speech(tag), expected, "{tag}");
        }
    }
}
