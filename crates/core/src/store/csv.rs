//! Writes tables as CSV, quoted where needed.

use crate::error::{Error, Result};

/// Formats records of the same length as CSV.
pub fn csv_text<R, C>(records: impl IntoIterator<Item = R>) -> Result<String>
where
    R: IntoIterator<Item = C>,
    C: AsRef<[u8]>,
{
    let bug = |error: String| Error::Bug(format!("a table to CSV: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    records.into_iter().try_for_each(|record| writer.write_record(record)).map_err(|error| bug(error.to_string()))?;
    let bytes = writer.into_inner().map_err(|error| bug(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| bug(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::csv_text;

    #[test]
    fn quotes_only_where_needed() {
        let text = csv_text([["name", "value"], ["a b", "-0.5"], ["a,\"b\"", ""], ["two\nlines", "x"]]).unwrap();
        assert_eq!(text, "name,value\na b,-0.5\n\"a,\"\"b\"\"\",\n\"two\nlines\",x\n");
        assert!(csv_text([&["a"][..], &["a", "b"]]).unwrap_err().to_string().contains("CSV"));
        assert_eq!(csv_text([[""; 0]; 0]).unwrap(), "");
    }
}
