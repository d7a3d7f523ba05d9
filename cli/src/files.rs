//! Reads the files that the user names; `-` is the input.

use std::io::Read as _;
use std::path::Path;
use std::{fs, io};

use thiserror::Error;

/// Why a file or directory can't be read.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("{0}: {1}")]
    Unreadable(String, io::Error),
    #[error("{0} has more than {1} bytes: split it into several files")]
    TooLong(String, u64),
}

/// Whether the path stands for the input.
pub fn is_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns a path as messages name it.
pub fn shown(path: &Path) -> String {
    if is_input(path) {
        "the input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// Reads a text that has at most `longest` bytes. No more than that is read of a longer one, which may have no end.
pub fn read_text(path: &Path, longest: u64) -> Result<String, FileError> {
    let text = read_start(path, longest + 1).map_err(|error| FileError::Unreadable(shown(path), error))?;
    if text.len() as u64 > longest {
        return Err(FileError::TooLong(shown(path), longest));
    }
    Ok(text)
}

fn read_start(path: &Path, bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    if is_input(path) {
        io::stdin().take(bytes).read_to_string(&mut text)?;
    } else {
        fs::File::open(path)?.take(bytes).read_to_string(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_a_whole_or_not_at_all() {
        let path = std::env::temp_dir().join(format!("cardgate-files-{}", std::process::id()));
        fs::write(&path, "kind: Pod").unwrap();
        let (whole, cut) = (read_text(&path, 9), read_text(&path, 8));
        fs::remove_file(&path).unwrap();
        assert_eq!(whole.unwrap(), "kind: Pod");
        let told = cut.unwrap_err().to_string();
        let file = path.display();
        assert_eq!(
            told,
            format!("{file} has more than 8 bytes: split it into several files")
        );
        let gone = read_text(&path, 9).unwrap_err().to_string();
        assert!(gone.starts_with(&format!("{file}: ")), "{gone}");
    }
}
