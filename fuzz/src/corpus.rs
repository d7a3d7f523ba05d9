//! The inputs that every target begins with: files that say by their names what they are.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// One input of a corpus.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its file, and its line where each line is an input.
    pub name: String,
    /// The input.
    pub text: String,
    /// Whether it is to be accepted; none where the corpus does not say.
    pub valid: Option<bool>,
}

/// The inputs of a target, from `corpora/TARGET`. Each line of `*.txt` is one, each other file as a whole. Files whose names
/// begin with `valid` or `invalid` say what is to become of them; others are what fuzzing found, or only to begin with.
///
/// # Panics
/// Where there are none: then the target has another name than its corpus.
pub fn read(target: &str) -> Vec<Entry> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora").join(target);
    let listed = fs::read_dir(&directory).unwrap_or_else(|error| fail(&directory, &error));
    let mut paths: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut entries = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| fail(&path, &error));
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let valid = [("invalid", false), ("valid", true)]
            .into_iter()
            .find_map(|(word, valid)| name.starts_with(word).then_some(valid));
        let entry = |name: String, text: &str| Entry {
            name: format!("{target}/{name}"),
            text: text.to_owned(),
            valid,
        };
        if path.extension().is_some_and(|extension| extension == "txt") {
            entries.extend(
                (1..)
                    .zip(text.lines())
                    .map(|(line, text)| entry(format!("{name}:{line}"), text)),
            );
        } else {
            entries.push(entry(name, &text));
        }
    }
    assert!(!entries.is_empty(), "{} holds no inputs", directory.display());
    entries
}

#[expect(clippy::panic, reason = "without its corpus a target tests nothing")]
fn fail(path: &Path, error: &std::io::Error) -> ! {
    panic!("{}: {error}", path.display())
}

/// The inputs of a target that are JSON, to make others from.
pub fn objects(entries: &[Entry]) -> Vec<Value> {
    let read = |entry: &Entry| serde_json::from_str(&entry.text).ok();
    entries.iter().filter_map(read).collect()
}
