//! Completion of half-typed commands. The text of messages is not completed.

use super::commands::{COMMANDS, find};

/// Where the word begins that can be completed, and everything that it could be.
pub fn candidates(line: &str, cursor: usize, threads: &[String]) -> (usize, Vec<String>) {
    let typed = line.get(..cursor).unwrap_or(line);
    let Some(command) = typed.strip_prefix('/').filter(|text| !text.contains('\n')) else {
        return (cursor, Vec::new());
    };
    let Some((name, rest)) = command.split_once(' ') else {
        let names = COMMANDS.iter().filter(|entry| entry.name.starts_with(command));
        let more = |usage: &str| if usage.contains(' ') { " " } else { "" };
        return (0, names.map(|entry| format!("/{}{}", entry.name, more(entry.usage))).collect());
    };
    let partial = rest.rsplit(' ').next().unwrap_or_default();
    let before: Vec<&str> = rest[..rest.len() - partial.len()].split_whitespace().collect();
    let mut found: Vec<String> = Vec::new();
    let Some(entry) = find(name) else { return (cursor, found) };
    let mut offer = |word: &str| {
        if word.starts_with(partial) && !found.iter().any(|known| known == word) {
            found.push(word.to_owned());
        }
    };
    for phrase in entry.phrases {
        let mut words = phrase.split(' ');
        if before.iter().all(|typed| words.next() == Some(typed)) {
            words.next().into_iter().for_each(&mut offer);
        }
    }
    if entry.name == "resume" && before.is_empty() {
        threads.iter().for_each(|thread| offer(thread));
    }
    (cursor - partial.len(), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_arguments_are_completed() {
        let threads = ["cli:main".to_owned(), "trip".to_owned()];
        for (line, start, expected) in [
            ("/he", 0, vec!["/help"]),
            ("/en", 0, vec!["/end "]),
            ("/ex", 0, vec!["/export ", "/exit"]),
            ("/end ", 5, vec!["new"]),
            ("/memory ", 8, vec!["status", "list", "recall", "forget", "clear"]),
            ("/memory li", 8, vec!["list"]),
            ("/m forget ", 10, vec!["fact", "arc", "rule"]),
            ("/m forget a", 10, vec!["arc"]),
            ("/m forget arc ", 14, vec![]),
            ("/fe", 0, vec!["/feedback "]),
            ("/feedback ", 10, vec!["up", "down", "more"]),
            ("/feedback down w", 15, vec![]),
            ("/search h", 8, vec!["history"]),
            ("/search history h", 16, vec![]),
            ("/resume ", 8, vec!["cli:main", "trip"]),
            ("/resume t", 8, vec!["trip"]),
            ("/resume trip ", 13, vec![]),
            ("/nonsense ", 10, vec![]),
            ("hello /he", 9, vec![]),
            ("/he\n", 4, vec![]),
        ] {
            assert_eq!(
                candidates(line, line.len(), &threads),
                (start, expected.iter().map(ToString::to_string).collect()),
                "{line}"
            );
        }
        assert_eq!(candidates("/", 1, &threads).1.len(), COMMANDS.len());
    }

    #[test]
    fn only_what_stands_before_the_cursor_counts() {
        assert_eq!(candidates("/exx", 3, &[]).1, ["/export ", "/exit"]);
    }
}
