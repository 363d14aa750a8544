//! The words of a text that carry meaning, and how much two texts share. Letters are compared in
//! lower case and without accents, since people leave both out; scripts without spaces are taken
//! character by character.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

/// The meaningful words of a text, each once.
pub type WordSet = BTreeSet<String>;

/// The meaningful words of a text, in order, repetitions included.
pub fn meaningful(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if stands_alone(c) {
            keep(&mut words, &mut word);
            if !PARTICLES.contains(c) {
                words.push(c.to_string());
            }
        } else if c.is_alphanumeric() || is_combining(c) {
            fold(c, &mut word);
        } else {
            keep(&mut words, &mut word);
        }
    }
    keep(&mut words, &mut word);
    words
}

pub fn set(text: &str) -> WordSet {
    meaningful(text).into_iter().collect()
}

/// Shared words among all words of both: 0 to 1, and 0 for two empty sets.
pub fn jaccard(a: &WordSet, b: &WordSet) -> f32 {
    let shared = shared(a, b);
    let all = a.len() + b.len() - shared;
    if all == 0 { 0.0 } else { shared as f32 / all as f32 }
}

pub fn shared(a: &WordSet, b: &WordSet) -> usize {
    a.intersection(b).count()
}

/// The share of `query` that `text` contains: 0 to 1, and 0 for an empty query.
pub fn overlap(query: &WordSet, text: &WordSet) -> f32 {
    if query.is_empty() { 0.0 } else { shared(query, text) as f32 / query.len() as f32 }
}

/// Adds a character in lower case and without its accent.
pub(crate) fn fold(c: char, to: &mut String) {
    for c in c.to_lowercase().filter(|c| !is_combining(*c)) {
        match c {
            'à'..='å' | 'ā' | 'ă' | 'ą' => to.push('a'),
            'ç' | 'ć' | 'č' => to.push('c'),
            'è'..='ë' | 'ē' | 'ę' | 'ě' => to.push('e'),
            'ì'..='ï' | 'ī' => to.push('i'),
            'ñ' | 'ń' | 'ň' => to.push('n'),
            'ò'..='ö' | 'ø' | 'ō' | 'ő' => to.push('o'),
            'ù'..='ü' | 'ū' | 'ů' | 'ű' => to.push('u'),
            'ý' | 'ÿ' => to.push('y'),
            'ś' | 'š' => to.push('s'),
            'ź' | 'ż' | 'ž' => to.push('z'),
            'ß' => to.push_str("ss"),
            'æ' => to.push_str("ae"),
            'œ' => to.push_str("oe"),
            other => to.push(other),
        }
    }
}

/// An accent that follows its letter.
pub(crate) fn is_combining(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

/// A character that is a word by itself: Han, Kana and Hangul.
pub(crate) fn stands_alone(c: char) -> bool {
    matches!(c,
        '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fc}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

pub(crate) fn is_stop_word(folded: &str) -> bool {
    STOP.contains(folded)
}

pub(crate) fn is_negation(folded: &str) -> bool {
    const NEGATIONS: &[&str] = &[
        "never", "not", "no", "dont", "doesnt", "didnt", "isnt", "arent", "wasnt", "wont", "cant", "cannot",
        "stop", "without", "nie", "niemals", "nicht", "kein", "keine", "keinen", "ne", "pas", "jamais",
        "nunca", "non", "mai", "nao", "niet", "nooit", "geen",
    ];
    NEGATIONS.contains(&folded)
}

/// Whether a text says "not" somewhere, in one of its words for it.
pub fn negates(text: &str) -> bool {
    let apart = |c: char| !c.is_alphanumeric() && !is_combining(c) && !matches!(c, '\'' | '’');
    text.split(apart).any(|word| {
        let mut folded = String::new();
        word.chars().filter(|c| c.is_alphanumeric() || is_combining(*c)).for_each(|c| fold(c, &mut folded));
        is_negation(&folded)
    })
}

fn keep(words: &mut Vec<String>, word: &mut String) {
    let lone_letter = word.chars().nth(1).is_none() && !word.chars().all(char::is_numeric);
    if !word.is_empty() && !lone_letter && !is_stop_word(word) {
        words.push(std::mem::take(word));
    }
    word.clear();
}

static STOP: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| STOP_WORDS.iter().flat_map(|words| words.split_ascii_whitespace()).collect());

/// Grammar of scripts without spaces.
const PARTICLES: &str = "のはがをにでともたてだなよねかへやしるいうれさんですま的了是我你他她它们在和也就都这那有不吗呢吧啊一个이가은는을를에의도로";

/// Folded as the words are. Words that are grammar in one language and a thing in another (car, war,
/// hat, son, man) are left out.
const STOP_WORDS: [&str; 7] = [
    // English
    "a about above after again against all also am an and any are aren as at back be because been before \
     being below between both but by came can cannot come could couldn did didn do does doesn doing don done \
     down during each even ever every few for from further get gets getting give go goes going gone gonna \
     got had hadn has hasn have haven having he her here hers herself him himself his how however i if im \
     in into is isn it its itself ive just know let like ll made make many maybe me more most much must my \
     myself need no nor not now of off oh ok okay on once one only or other our ours ourselves out over own \
     please quite rather re really said same say says see seem seems she should shouldn since so some \
     something still such take than thank thanks that the their theirs them themselves then there these \
     they thing things think this those though through to too tell told under until up us use used user \
     very want wanted wants was wasn way we well went were weren what when where which while who whom whose \
     why will with won would wouldn yeah yes yet you your yours yourself",
    // German
    "aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anders auch auf \
     aus bei beim bin bis bist bitte da dabei damit dann das dass dazu dein deine dem den denn der des dich \
     die dies diese diesem diesen dieser dieses dir doch dort du durch eben ein eine einem einen einer eines \
     er es etwas euch euer fur ganz gar gern gerne geht gibt haben habe hatte hatten hast hier hin ich ihm \
     ihn ihnen ihr ihre ihrem ihren ihrer im immer in ins ist ja jede jedem jeden jeder jedes jetzt kann \
     kein keine keinen konnen kannst machen mal mehr mein meine meinem meinen meiner mich mir mit mochte \
     muss mussen nach nein nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner \
     seit sich sie sind so soll solche sondern um und uns unser unsere unter viel vom von vor wann warum was \
     weil wenn wer werde werden wie wieder wir wird wirst wo wurde wurden zu zum zur",
    // French
    "ai ainsi alors apres as au aucun aussi autre aux avant avec avoir avons avez beaucoup bien ca ce cela \
     celle celui ces cet cette chez comme comment dans de deja depuis des deux donc dont du elle elles en \
     encore entre es est et etait ete etes etre eux fait faire fois ici il ils je la le les leur leurs lui \
     ma mais meme mes moi moins mon ne ni non nos notre nous on ont ou oui par parce pas peu peut plus pour \
     pourquoi qu quand que quel quelle quelque qui quoi sa sans se sera ses si sommes sont sous suis sur ta \
     te tes toi ton toujours tout toute toutes tous tres trop tu un une va vais vers veux voici voila vos \
     votre vous vraiment",
    // Spanish
    "al algo alguna alguno algunos ante antes asi aun aunque bien cada como con contra cual cuando cuanto \
     de del desde donde dos el ella ellas ellos en entre era eran eres es esa esas ese eso esos esta estaba \
     estado estan estar estas este esto estos estoy fue fueron gracias ha haber habia han hasta hay he hace \
     hacer la las le les lo los mas me mi mis mismo mucho muchos muy nada ni nos nosotros nuestra nuestro o \
     os otra otro otros para pero poco por porque pues puede puedo que quien quiero se sea ser si siempre \
     sido sino sobre somos soy su sus tal tambien tan tanto te tengo tener ti tiene todo todos tu tus un \
     una unas uno unos usted vosotros voy ya yo",
    // Italian
    "abbiamo agli ai al alla alle allo anche ancora avere aveva avevo avete c che chi ci cio come con cosa \
     cosi cui da dal dalla dalle degli dei del della delle dello dentro di dopo dove due e ed era erano \
     essere fa fra fino fra gia gli ha hai hanno ho il in io la le lei li lo loro lui ma mai me mi mia mie \
     miei mio molto ne nei nel nella nelle noi non nostra nostro o ogni per perche piu poi poco puo qual \
     quale quando quanto quella quelle quelli quello questa queste questi questo qui sara se sei sempre \
     senza si sia siamo siete sono sta stato sto su sua sue sugli sui sul sulla suo suoi ti tra troppo tu \
     tua tue tuo tuoi tutti tutto un una uno vi voglio voi",
    // Portuguese
    "ainda ao aos aquela aquele aquilo as ate com como da das de dela dele deles depois do dos e ela elas ele \
     eles em entre era essa esse esta estao estava este estou eu foi foram ha isso isto ja la lhe mais mas me \
     mesmo meu meus minha minhas muito na nao nas nem no nos nossa nosso num numa nunca o os ou para pela \
     pelo per pode por porque pra quando que quem quero sao se seja sem ser seu seus so sou sua suas tambem \
     tem tenho tinha tudo um uma vai voce voces vou",
    // Dutch
    "aan al alles als altijd ben bent bij daar dan dat de der deze die dit doch doen door dus een eens en er \
     ge geen geweest graag haar had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je jij \
     jou jouw kan kon kunnen maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat onder \
     ons onze ook op over reeds te tegen toch toen tot uit van veel voor waar waren was wat we wel werd wezen \
     wie wil worden wordt zal ze zelf zich zij zijn zo zonder zou",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_mean_something_are_kept() {
        let table: [(&str, &[&str]); 9] = [
            ("I live in the old town of Graz", &["live", "old", "town", "graz"]),
            ("My dog's name is Bello!", &["dog", "name", "bello"]),
            ("Ich wohne seit 3 Jahren in Köln", &["wohne", "3", "jahren", "koln"]),
            ("J'habite à Besançon avec ma sœur", &["habite", "besancon", "soeur"]),
            ("Vivo en Málaga con mi hermana", &["vivo", "malaga", "hermana"]),
            ("Cafe\u{301} STRASSE straße", &["cafe", "strasse", "strasse"]),
            ("東京に住んでいる", &["東", "京", "住"]),
            ("I drive a car to my son", &["drive", "car", "son"]),
            (" … ?! ", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(meaningful(text), expected, "{text}");
        }
    }

    #[test]
    fn a_not_is_heard_in_its_many_spellings() {
        for text in ["Do not run", "don't", "Don’t", "NEVER", "nicht jetzt", "no, thanks"] {
            assert!(negates(text), "{text}");
        }
        for text in ["", "note the knot", "run it"] {
            assert!(!negates(text), "{text}");
        }
    }

    #[test]
    fn likeness_is_measured_by_shared_words() {
        let (a, b) = (set("green tea in the morning"), set("green tea at night"));
        assert_eq!(shared(&a, &b), 2);
        assert_eq!(jaccard(&a, &b), 0.5);
        assert_eq!(overlap(&set("green tea"), &a), 1.0);
        assert_eq!(overlap(&set("black tea"), &a), 0.5);
        for (x, y) in [("", ""), ("", "tea"), ("the", "of")] {
            assert_eq!(jaccard(&set(x), &set(y)), 0.0);
            assert_eq!(overlap(&set(x), &set(y)), 0.0);
        }
    }
}
