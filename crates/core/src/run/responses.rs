//! The role `responses`: answers of people to two-choice tasks.

use std::collections::BTreeMap;

use super::artefact::Artefact;
use crate::error::{Error, InputError, Result};
use crate::input::TextTable;

/// Answers of people, one per trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Responses {
    /// The trials.
    pub trials: Vec<Response>,
}

/// One trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// The number of the unit, if the table has it.
    pub unit: Option<u64>,
    /// The network, or network and difficulty.
    pub model: String,
    /// The layer.
    pub layer: String,
    /// The unit within its layer.
    pub channel: Option<u64>,
    /// How the unit was explained: `natural` or `optimized`.
    pub mode: String,
    /// Whether the answer is right.
    pub correct: bool,
    /// Whether the trial is an exercise.
    pub demo: bool,
    /// Whether the trial only checks attention.
    pub catch: bool,
    /// Participant and session.
    pub session: String,
    /// Whether the session passed the checks of the experimenters.
    pub passed: Option<bool>,
    /// Whether the participant had taken part before.
    pub repeated: bool,
    /// The place of the image that was chosen, such as a row or a button.
    pub place: String,
    /// Seconds of the session.
    pub seconds: Option<f64>,
    /// Seconds of the instructions of the session.
    pub instruction_seconds: Option<f64>,
    /// Attempts at the exercises of the session.
    pub demo_attempts: Option<f64>,
}

/// Names of columns, the first that a table has counts. The published data have those that end with `_extracted`.
const UNIT: &[&str] = &["unit", "unit_id"];
const MODE: &[&str] = &["mode"];
const CORRECT: &[&str] = &["correct", "is_correct"];
const DEMO: &[&str] = &["is_demo", "demo"];
const CATCH: &[&str] = &["catch_trial", "is_catch_trial", "catch"];
const PARTICIPANT: &[&str] =
    &["participant_id", "worker_id", "participant", "subject", "PROLIFIC_PID", "workerId", "jatosStudyResultId"];
const PASSED: &[&str] = &["passed_checks", "passed"];
const REPEATED: &[&str] = &["multi_participation"];
const SECONDS: &[&str] = &["total_time", "total_seconds", "total_response_time_details_extracted"];
const INSTRUCTIONS: &[&str] = &["instruction_time", "instruction_seconds", "instruction_time_details_extracted"];
const ATTEMPTS: &[&str] = &["demo_attempts", "demo_trials_details_extracted"];
/// The place of the chosen image. `choice` is the last one: in the published data it says which image was chosen, wherever
/// it was, so that a participant who is always right makes one choice only.
const PLACE: &[&str] = &["place", "button_pressed", "response", "choice"];
/// All of them together tell sessions apart.
const SESSION: &[&str] = &["task_id", "task_number", "response_index", "session", "record"];
/// Milliseconds since the start of an experiment, as jsPsych counts them.
const ELAPSED: &[&str] = &["time_elapsed"];

/// Cells of one row, read with the names of their columns in messages.
struct Cells<'a> {
    table: &'a TextTable,
    row: usize,
}

impl Cells<'_> {
    fn text(&self, column: Option<usize>) -> &str {
        column.and_then(|index| self.table.cells[self.row].get(index)).map_or("", |cell| cell.trim())
    }

    fn wrong(&self, column: Option<usize>, expected: &str) -> Error {
        let name = column.map_or("", |column| &self.table.header[column]);
        InputError::new(format!("invalid `{name}` of a response"))
            .expected(expected)
            .found(format!("`{}`", self.text(column)))
            .at(self.table.position(self.row))
            .into()
    }

    fn yes(&self, column: Option<usize>) -> Result<Option<bool>> {
        match self.text(column).to_ascii_lowercase().as_str() {
            "" | "nan" | "null" | "none" => Ok(None),
            "1" | "1.0" | "true" | "yes" => Ok(Some(true)),
            "0" | "0.0" | "false" | "no" => Ok(Some(false)),
            _ => Err(self.wrong(column, "true or false")),
        }
    }

    fn number(&self, column: Option<usize>) -> Result<Option<f64>> {
        match self.text(column) {
            "" | "nan" | "NaN" => Ok(None),
            written => match written.parse::<f64>().ok().filter(|number| number.is_finite()) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(column, "a number")),
            },
        }
    }

    /// A number of a unit; checks of attention have −1.
    fn whole(&self, column: Option<usize>) -> Result<Option<u64>> {
        match self.number(column)? {
            Some(number) if number.fract() != 0.0 => Err(self.wrong(column, "a whole number")),
            number => Ok(number.filter(|number| *number >= 0.0).map(|number| number as u64)),
        }
    }
}

/// When the rows of a session were recorded.
#[derive(Default)]
struct Times {
    first: Option<f64>,
    last: Option<f64>,
    /// The last row before the first answer: the end of the instructions.
    instructions: Option<f64>,
    answered: bool,
}

impl Times {
    fn add(&mut self, elapsed: f64, answered: bool) {
        self.first.get_or_insert(elapsed);
        self.last = Some(elapsed);
        self.answered |= answered;
        if !self.answered {
            self.instructions = Some(elapsed);
        }
    }

    /// Seconds of the session and of its instructions. Only a session that begins with instructions is complete.
    fn seconds(&self) -> Option<[f64; 2]> {
        let (first, last, instructions) = (self.first?, self.last?, self.instructions?);
        Some([(last - first) / 1000.0, (instructions - first) / 1000.0])
    }
}

impl Responses {
    /// Reads a table with `correct` and either `unit`, or `layer` and `channel` (and `model`). Rows without an answer, such as
    /// instructions, give times only.
    pub fn from_table(table: &TextTable) -> Result<Responses> {
        let column = |names: &[&str]| names.iter().find_map(|name| table.column(name));
        let missing = |what: &str| {
            InputError::new(format!("the table of responses has no column `{what}`"))
                .expected("correct, and unit or model, layer, channel")
                .found(table.header.join(", "))
        };
        let correct = Some(column(CORRECT).ok_or_else(|| missing("correct"))?);
        let (unit, layer, channel) = (column(UNIT), table.column("layer"), table.column("channel"));
        if unit.is_none() && (layer.is_none() || channel.is_none()) {
            return Err(missing(if layer.is_none() { "layer" } else { "channel" }).into());
        }
        let (model, mode, demo, catch) = (table.column("model"), column(MODE), column(DEMO), column(CATCH));
        let (participant, passed, repeated, place) =
            (column(PARTICIPANT), column(PASSED), column(REPEATED), column(PLACE));
        let (seconds, instructions, attempts, elapsed) =
            (column(SECONDS), column(INSTRUCTIONS), column(ATTEMPTS), column(ELAPSED));
        let sessions: Vec<usize> = SESSION.iter().filter_map(|name| table.column(name)).collect();
        let mut trials = Vec::with_capacity(table.cells.len());
        let mut times: BTreeMap<String, Times> = BTreeMap::new();
        for row in 0..table.cells.len() {
            let cells = Cells { table, row };
            let parts = std::iter::once(participant).chain(sessions.iter().map(|&column| Some(column)));
            let session = parts.map(|column| cells.text(column)).collect::<Vec<_>>().join("\u{1f}");
            let answer = cells.yes(correct)?;
            if let Some(elapsed) = cells.number(elapsed)? {
                times.entry(session.clone()).or_default().add(elapsed, answer.is_some());
            }
            let Some(correct) = answer else { continue };
            trials.push(Response {
                unit: cells.whole(unit)?,
                model: cells.text(model).into(),
                layer: cells.text(layer).into(),
                channel: cells.whole(channel)?,
                mode: cells.text(mode).into(),
                correct,
                demo: cells.yes(demo)?.unwrap_or(false),
                catch: cells.yes(catch)?.unwrap_or(cells.text(mode) == "catch_trial"),
                session,
                passed: cells.yes(passed)?,
                repeated: cells.yes(repeated)?.unwrap_or(false),
                place: cells.text(place).into(),
                seconds: cells.number(seconds)?,
                instruction_seconds: cells.number(instructions)?,
                demo_attempts: cells.number(attempts)?,
            });
        }
        for trial in &mut trials {
            if let Some([all, reading]) = times.get(&trial.session).and_then(Times::seconds) {
                trial.seconds.get_or_insert(all);
                trial.instruction_seconds.get_or_insert(reading);
            }
        }
        join_rows_of_buttons(&mut trials);
        Ok(Responses { trials })
    }
}

/// The published experiment has two rows of three buttons, numbered from 0, one per degree of confidence: a place is a row.
fn join_rows_of_buttons(trials: &mut [Response]) {
    let buttons: Option<Vec<u32>> =
        trials.iter().filter(|trial| !trial.place.is_empty()).map(|trial| trial.place.parse().ok()).collect();
    if buttons.is_some_and(|buttons| (2..=5).contains(&buttons.iter().copied().max().unwrap_or(0))) {
        for trial in trials.iter_mut() {
            if let Ok(button) = trial.place.parse::<u32>() {
                trial.place = (button / 3).to_string();
            }
        }
    }
}

impl Artefact for Responses {
    fn sizes(&self) -> Vec<usize> {
        vec![self.trials.len()]
    }

    fn id(&self) -> Result<String> {
        let mut hash = blake3::Hasher::new_derive_key("etalon responses v1");
        for trial in &self.trials {
            // `Debug` of a struct of texts, numbers and flags is unambiguous.
            let text = format!("{trial:?}");
            hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        Ok(format!("blake3:{}", hash.finalize().to_hex()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Budget;
    use crate::input::read_table;

    fn read(text: &str) -> Result<Responses> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("responses.csv");
        std::fs::write(&path, text).unwrap();
        Responses::from_table(&read_table(&path, &Budget::new(1 << 20))?)
    }

    #[test]
    fn tables_of_experiments_are_read() {
        let text = "model,layer,channel,mode,correct,is_demo,catch_trial,participant_id,passed_checks\n\
                    resnet,conv1,7,natural,True,False,False,p1,True\n\
                    resnet,,-1,catch_trial,,False,True,p1,True\n\
                    resnet,conv1,8,catch_trial,1,0,,p1,\n";
        let trials = read(text).unwrap().trials;
        assert_eq!(trials.len(), 2);
        assert_eq!((trials[0].channel, trials[0].correct, trials[0].passed), (Some(7), true, Some(true)));
        assert!(trials[1].catch && !trials[1].demo && trials[1].passed.is_none());
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("unit\n1\n").contains("no column `correct`"));
        assert!(message("correct,layer\n1,a\n").contains("no column `channel`"));
        assert!(message("correct,unit\nmaybe,1\n").contains("true or false"));
        assert!(message("correct,unit\n1,1.5\n").contains("line 2"));
        assert!(message("correct,unit,time_elapsed\n1,1,soon\n").contains("`time_elapsed`"));
        assert_ne!(
            read("correct,unit\n1,1\n").unwrap().id().unwrap(),
            read("correct,unit\n0,1\n").unwrap().id().unwrap()
        );
    }
    #[test]
    fn sessions_are_told_apart_by_all_their_columns() {
        let text = "correct,unit,participant_id,task_id,response_index,multi_participation\n\
                    1,0,p,t-1,0,False\n1,0,p,t-2,0,True\n1,0,q,t-2,0,False\n1,0,p,t-1,0,False\n";
        let trials = read(text).unwrap().trials;
        assert_eq!(trials[0].session, trials[3].session);
        assert!(trials[0].session != trials[1].session && trials[1].session != trials[2].session);
        assert_eq!(trials.iter().map(|trial| trial.repeated).collect::<Vec<_>>(), [false, true, false, false]);
    }

    #[test]
    fn places_are_rows_of_buttons_and_not_the_chosen_images() {
        // Always the right image `b`, with three degrees of confidence in two rows.
        let text = "correct,unit,choice,button_pressed\n1,0,b,0\n1,0,b,5\n1,0,b,2\n1,0,b,3\n";
        let places = |text: &str| read(text).unwrap().trials.into_iter().map(|trial| trial.place).collect::<Vec<_>>();
        assert_eq!(places(text), ["0", "1", "0", "1"]);
        assert_eq!(places("correct,unit,response\n1,0,0\n1,0,1\n"), ["0", "1"]);
        assert_eq!(places("correct,unit,choice\n1,0,left\n1,0,right\n"), ["left", "right"]);
    }

    #[test]
    fn times_are_those_of_complete_sessions() {
        // Two pages of instructions end after 2 and 22 seconds, the answers after 30 and 50, the last page after 52.
        let text = "correct,unit,participant,time_elapsed\n,,a,2000\n,,a,22000\n1,0,a,30000\n0,1,a,50000\n,,a,52000\n1,0,b,9000\n1,0,b,19000\n";
        let trials = read(text).unwrap().trials;
        assert_eq!(trials.len(), 4);
        assert_eq!((trials[1].seconds, trials[1].instruction_seconds), (Some(50.0), Some(20.0)));
        // A table of answers only does not tell how long the session was.
        assert_eq!((trials[2].seconds, trials[2].instruction_seconds), (None, None));
        let given = "correct,unit,total_response_time_details_extracted,instruction_time_details_extracted,demo_trials_details_extracted\n1,0,150.5,16,2\n";
        let trial = &read(given).unwrap().trials[0];
        assert_eq!(
            (trial.seconds, trial.instruction_seconds, trial.demo_attempts),
            (Some(150.5), Some(16.0), Some(2.0))
        );
    }
}
